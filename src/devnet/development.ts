/**
 * devnet: parts that only a development installation has.
 * Owns: the embedded chain with sample contracts and faucet, the signer as a child, the development sign-in, the
 *   explorer pages.
 * Does not own: anything that production uses; with NODE_ENV=production nothing here is opened.
 */

import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Hex } from '../ids.ts'
import type { Logger } from '../log.ts'
import { startChain } from './chain.ts'
import { deploySamples } from './deploy.ts'
import { allowSponsor, spaceOf } from './sponsor.ts'
import { giveCoins } from './faucet.ts'

export type EmbeddedChain = {
  rpcUrl: string
  contracts: { erc20: Hex; erc721: Hex; erc1155: Hex; multicall3: Hex }
  /** funds an account whose balance is low */
  faucet(address: Hex): Promise<void>
  /** funds an account with this amount if it has less than a tenth of it */
  fund(address: Hex, wei: bigint): Promise<void>
  /** the address that authorizes sponsors to send users' operations */
  space: Hex
  allowSponsor(address: Hex): Promise<void>
  stop(): Promise<void>
  /** settles when the chain has ended for any reason */
  exited: Promise<unknown>
}

/** Starts the embedded chain with its sample contracts. */
export async function openEmbeddedChain(options: {
  dir: string
  port: number | undefined
  blockSeconds: number
  log: Logger
}): Promise<EmbeddedChain> {
  const chain = await startChain(options)
  try {
    const contracts = await deploySamples(chain.rpcUrl)
    return {
      rpcUrl: chain.rpcUrl,
      contracts,
      faucet: async (address) => {
        await giveCoins(chain.rpcUrl, address)
      },
      fund: async (address, wei) => {
        await giveCoins(chain.rpcUrl, address, wei)
      },
      space: await spaceOf(chain.rpcUrl),
      allowSponsor: (address) => allowSponsor(chain.rpcUrl, address),
      stop: () => chain.stop(),
      exited: chain.exited,
    }
  } catch (error) {
    await chain.stop()
    throw error
  }
}

/**
 * Facts about a development installation, for tools and tests. The file is replaced atomically, so readers never see
 * half of it.
 */
export type DevelopmentFacts = {
  origin: string
  baseUrl: string
  issuer: string
  rpcUrl: string
  chainId: number
  clientId: string
  contracts: { erc20: Hex | null; erc721: Hex | null; erc1155: Hex | null; multicall3: Hex | null }
}

/** Writes the facts to DATA_DIR/dev.json. */
export async function writeFacts(dataDir: string, facts: DevelopmentFacts): Promise<void> {
  const path = join(dataDir, 'dev.json')
  await writeFile(`${path}.part`, `${JSON.stringify(facts, null, 2)}\n`)
  await rename(`${path}.part`, path)
}

type Greeting = {
  token: string
  userId: string
  /** lifetime of the token */
  tokenSeconds: number
  /** duration of the start */
  seconds: string
  isEmbedded: boolean
  /** DEVELOPMENT_OPEN_TO=everyone */
  isOpen: boolean
}

/** Returns the text shown after the start: with all addresses, and a command that works when pasted. */
export function banner(
  { origin, baseUrl, issuer, rpcUrl, chainId, clientId }: DevelopmentFacts,
  { token, userId, tokenSeconds, seconds, isEmbedded, isOpen }: Greeting,
): string {
  const who = isOpen ? 'EVERYONE WHO CAN REACH IT' : 'anyone on this machine'
  const life = tokenSeconds === 3_600 ? 'an hour' : `${tokenSeconds} s`
  return `
Chatelaine is ready after ${seconds} s. Development mode: ${who} may sign in as anyone.

  Pages      ${origin}/
  API docs   ${origin}/docs/
  Explorer   ${origin}/explorer
  Demo       ${origin}/demo  (an application in one page)
  Console    ${origin}/console  (first: npx chatelaine operator add --provider DEV --user-id demo --role owner)
  Chain      ${rpcUrl}  (chain id ${chainId}${isEmbedded ? ', embedded' : ''})
  OAuth      ${issuer}  (client id: ${clientId}, public, PKCE, any loopback redirect)

Try it as ${userId}; the token is valid for ${life}:

  curl -H 'Authorization: Bearer ${token}' ${baseUrl}/users/${userId}/balance

Ctrl-C stops everything; the next start continues where this one ended.
`
}
