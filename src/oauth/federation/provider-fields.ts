import { createPrivateKey, type KeyObject } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { isLoopback } from '../../config.ts'
import { isMutableClaim } from '../../ids.ts'

/** The tenant id of all personal Microsoft accounts. */
const CONSUMERS = '9188040d-6c67-4c5b-b112-36a304b66dad'

export type ProviderFields = ReturnType<typeof openProviderFields>

/**
 * Opens the readers for the fields of one entry of PROVIDERS_FILE. They report each problem to `refuse`, never with a
 * value that may be secret, and continue, so that all problems are named at once.
 * @param folder      of PROVIDERS_FILE: other file names are relative to it
 * @param allowsHttp  for providers on this machine
 */
export function openProviderFields(
  given: Record<string, unknown>,
  { folder, allowsHttp, refuse }: { folder: string; allowsHttp: boolean; refuse: (problem: string) => void },
) {
  const has = (key: string): boolean => given[key] !== undefined

  function text(key: string, otherwise?: string): string {
    const value = given[key] ?? otherwise
    if (typeof value === 'string' && value.trim() !== '') return value
    refuse(value === undefined ? `${key} is missing` : `${key} must be a string`)
    return ''
  }

  function textsByName(key: string): Record<string, string> {
    const value = given[key] ?? {}
    if (isObjectOfTexts(value)) return value
    refuse(`${key} must be an object of strings`)
    return {}
  }

  function texts(key: string, otherwise: string[]): string[] {
    const value = given[key] ?? otherwise
    if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string' && one !== ''))
      return value as string[]
    refuse(`${key} must be a list of strings`)
    return otherwise
  }

  function address(key: string): string {
    const value = text(key)
    const url = URL.canParse(value) ? new URL(value) : null
    const isFit = url?.protocol === 'https:' || (allowsHttp && url?.protocol === 'http:' && isLoopback(url.hostname))
    if (value !== '' && !(isFit && !(key === 'issuer' ? /[?#]/ : /#/).test(value)))
      refuse(`${key} must be an https URL`)
    return value
  }

  /** Reads a file, by its full path or relative to the folder of PROVIDERS_FILE. */
  function fileText(key: string): string | null {
    try {
      const content = readFileSync(resolve(folder, text(key)), 'utf8')
      if (content.trim() !== '') return content
    } catch {
      // Reported below.
    }
    refuse(`${key} cannot be read, or is empty`)
    return null
  }

  return {
    has,
    text,
    texts,
    textsByName,
    address,

    subject(otherwise?: string): string {
      const claim = text('subjectClaim', otherwise)
      if (isMutableClaim(claim))
        refuse(`subjectClaim ${claim} can change or pass to another user; use an immutable id such as sub`)
      return claim
    },

    networkAccess(...addresses: string[]): { allowsPrivate?: true; allowsHttp?: true } {
      const { allowPrivate = false } = given
      if (typeof allowPrivate !== 'boolean') refuse('allowPrivate must be true or false')
      return {
        ...(allowPrivate === true ? { allowsPrivate: true } : {}),
        ...(addresses.some((one) => one.startsWith('http:')) ? { allowsHttp: true } : {}),
      }
    },

    askAgain(): Record<string, string> {
      const words = textsByName('askAgain')
      if (Object.keys(words).length === 0) refuse('askAgain must name a parameter')
      return words
    },

    proof(): { proof?: 'basic' | 'post' } {
      const { clientAuthentication: way } = given
      if (way === undefined) return {}
      if (way === 'client_secret_basic') return { proof: 'basic' }
      if (way !== 'client_secret_post') refuse('clientAuthentication must be client_secret_basic or client_secret_post')
      return { proof: 'post' }
    },

    /**
     * Reads the tenant. Shared tenants (`common`, `organizations`) stand for any number of issuers, but a provider name
     * belongs to one.
     */
    tenant(): string {
      const id = text('tenant')
      if (id === 'consumers') return CONSUMERS
      if (id !== '' && !/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(id))
        refuse('tenant must be the id of one tenant in lower case, or consumers for personal accounts')
      return id
    },

    secret(): string | null {
      if (has('clientSecret') && has('clientSecretFile')) refuse('clientSecret and clientSecretFile exclude each other')
      if (has('clientSecretFile')) return fileText('clientSecretFile')?.trim() ?? null
      return has('clientSecret') ? text('clientSecret') : null
    },

    privateKey(): KeyObject {
      try {
        const key = createPrivateKey(fileText('privateKeyFile') ?? '')
        if (key.asymmetricKeyDetails?.namedCurve === 'prime256v1') return key
      } catch {
        // The library's message may repeat the contents of the file.
      }
      refuse('privateKeyFile must contain the .p8 key from Apple')
      return null as never
    },
  }
}

const isObjectOfTexts = (value: unknown): value is Record<string, string> =>
  typeof value === 'object' &&
  value !== null &&
  !Array.isArray(value) &&
  Object.values(value).every((one) => typeof one === 'string')
