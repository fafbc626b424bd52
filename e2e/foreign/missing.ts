import { existsSync } from 'node:fs'

/** @returns why it is skipped; false where it is installed. A check before landing must not pass without it. */
export function missing(name: string, ...files: string[]): string | false {
  if (files.every((file) => existsSync(file))) return false
  if (process.env.CI === 'true') throw new Error(`${name} is not installed`)
  return `${name} is not installed`
}
