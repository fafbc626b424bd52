import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { createWalletClient, http } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import type { Hex } from '../../src/ids.ts'

/** milliseconds between two blocks */
const EVERY_MS = 300
const NOTHING: Hex = `0x${'0'.repeat(64)}`

/**
 * What an execution client needs beside itself: a genesis, whose coins an account with a new key has, and someone who asks for
 * blocks as a consensus client does.
 * Source: ethereum/execution-apis, the Engine API of Shanghai
 */
export function openDriven({ url, enginePort }: { url: string; enginePort: number }) {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-node-'))
  const [data, genesis] = [join(folder, 'data'), join(folder, 'genesis.json')]
  const account = privateKeyToAccount(`0x${randomBytes(32).toString('hex')}`)
  writeFileSync(genesis, JSON.stringify(genesisWith(account.address)))
  let isDriving = false
  let driving = Promise.resolve()

  async function ask<T>(at: string, method: string, ...params: unknown[]): Promise<T> {
    const response = await fetch(at, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    })
    const { result, error } = (await response.json()) as { result: T; error?: { message: string } }
    if (error !== undefined) throw new Error(`${method}: ${error.message}`)
    return result
  }
  const engine = <T>(method: string, ...params: unknown[]) =>
    ask<T>(`http://127.0.0.1:${enginePort}`, method, ...params)

  async function makeBlock(): Promise<void> {
    const { hash, timestamp } = await ask<{ hash: Hex; timestamp: Hex }>(url, 'eth_getBlockByNumber', 'latest', false)
    const chooses = (head: Hex) => ({ headBlockHash: head, safeBlockHash: head, finalizedBlockHash: NOTHING })
    const { payloadId } = await engine<{ payloadId: Hex | null }>('engine_forkchoiceUpdatedV2', chooses(hash), {
      timestamp: `0x${Math.max(Number(timestamp) + 1, Math.floor(Date.now() / 1_000)).toString(16)}`,
      prevRandao: NOTHING,
      suggestedFeeRecipient: `0x${'0'.repeat(39)}1`,
      withdrawals: [],
    })
    if (payloadId === null) return
    await pause(EVERY_MS / 2)
    const { executionPayload: payload } = await engine<{ executionPayload: { blockHash: Hex } }>(
      'engine_getPayloadV2',
      payloadId,
    )
    await engine('engine_newPayloadV2', payload)
    await engine('engine_forkchoiceUpdatedV2', chooses(payload.blockHash))
  }
  async function driveOn(): Promise<void> {
    while (isDriving) {
      // A node that is about to start, or busy, is asked again.
      await makeBlock().catch(() => {})
      await pause(EVERY_MS)
    }
  }

  return {
    args: [
      ...['--dataDir', data, '--gethGenesis', genesis, '--rpcEnginePort', String(enginePort)],
      // Without a name it writes one below its folder of chains, which may not be there yet.
      ...['--logFile', join(folder, 'log'), '--logLevelFile', 'error', '--logRotate', 'false'],
    ],
    drive: (): void => {
      isDriving = true
      driving = driveOn()
    },
    rest: async (): Promise<void> => {
      isDriving = false
      await driving
    },
    /** the chain, not what it begins with */
    forget: (): void => rmSync(data, { recursive: true }),
    remove: (): void => rmSync(folder, { recursive: true }),
    // Not of the legacy type: while its newest block holds one of those, it fails in `eth_gasPrice`.
    send: ({ to, data: input, value = '0x0' }: { to?: string; data?: Hex; value?: Hex }): Promise<Hex> =>
      createWalletClient({ account, transport: http(url) }).sendTransaction({
        ...{ chain: null, type: 'eip1559', gas: 4_000_000n },
        ...{ maxFeePerGas: 3n * 10n ** 9n, maxPriorityFeePerGas: 10n ** 9n },
        ...{ to: to as Hex | undefined, data: input, value: BigInt(value) },
      }),
  }
}

function genesisWith(address: Hex) {
  const forks =
    'homestead eip150 eip155 eip158 byzantium constantinople petersburg istanbul berlin london mergeNetsplit'
  return {
    config: {
      chainId: 1337,
      ...Object.fromEntries(forks.split(' ').map((fork) => [`${fork}Block`, 0])),
      ...{ terminalTotalDifficulty: 0, terminalTotalDifficultyPassed: true, shanghaiTime: 0 },
    },
    ...{
      nonce: '0x0',
      timestamp: '0x6553f100',
      extraData: '0x',
      gasLimit: '0x1c9c380',
      gasUsed: '0x0',
      difficulty: '0x0',
    },
    ...{ mixHash: NOTHING, parentHash: NOTHING, coinbase: `0x${'0'.repeat(40)}`, number: '0x0' },
    ...{ baseFeePerGas: '0x3b9aca00', alloc: { [address]: { balance: '0x10000000000000000000' } } },
  }
}
