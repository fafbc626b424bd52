import type { Static } from 'typebox'
import { readAddress } from '../abi/args.ts'
import type { App } from '../app.ts'
import { readAt } from '../chain/reads.ts'
import { AppError } from '../errors.ts'
import type { Reader } from '../http/bearer.ts'
import { chainOf } from '../http/caller.ts'
import type { Hex } from '../ids.ts'
import { readTokenFacts } from '../tokens/read.ts'
import { ownAccount } from '../users/authorize.ts'
import { askBalance, askDecimals } from './ask.ts'
import { nativeEntry, tokenEntry } from './entry.ts'
import type { NativeEntry, TokenEntry } from './wire.ts'

/** Entries of balances by the currency's symbol or the lower-case token address, and the block of the balances. */
export type Balances<Entry> = { blockNumber: number; entries: Record<string, Entry> }

/**
 * Returns the user's balance of native currency, at one block.
 * @throws forbidden_user | invalid_user_id
 */
export async function readNativeBalance(
  app: App,
  reader: Reader,
  { userId }: { userId: string },
): Promise<Balances<Static<typeof NativeEntry>>> {
  const { address } = await ownAccount(app, reader, userId)
  const chain = chainOf(app, reader)
  return readAt(chain, 'latest', async (reads) => ({
    blockNumber: reads.block.number,
    entries: { [chain.symbol]: nativeEntry(chain, await reads.balance(address)) },
  }))
}

/**
 * Returns the user's balance of one token, at one block. A token with invalid metadata still has a balance.
 * @throws forbidden_user | invalid_user_id | invalid_address | not_a_token
 */
export async function readTokenBalance(
  app: App,
  reader: Reader,
  { userId, tokenAddress }: { userId: string; tokenAddress: string },
): Promise<Balances<Static<typeof TokenEntry>>> {
  const { address: owner } = await ownAccount(app, reader, userId)
  const token = readTokenAddress(tokenAddress)
  const chain = chainOf(app, reader)
  const { balance, decimals, blockNumber } = await readAt(chain, 'latest', async (reads) => {
    const [balance, decimals] = await Promise.all([askBalance(reads, { token, owner }), askDecimals(reads, token)])
    return { balance, decimals, blockNumber: reads.block.number }
  })
  if (balance === null) {
    throw new AppError(
      'not_a_token',
      'This address has no code, or its code does not implement `balanceOf`. Check the address and the network.',
      {
        errors: [
          {
            parameter: 'tokenAddress',
            code: 'not_a_token',
            detail: 'The address has no code, or its code does not implement `balanceOf`.',
          },
        ],
      },
    )
  }
  const facts = await readTokenFacts(app, chain, token)
  return { blockNumber, entries: { [token.toLowerCase()]: tokenEntry(chain, { token, balance, decimals, facts }) } }
}

function readTokenAddress(text: string): Hex {
  try {
    return readAddress(text)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new AppError('invalid_address', error.message, {
      errors: [{ parameter: 'tokenAddress', code: 'invalid_address', detail: error.message }],
    })
  }
}
