import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Logger } from '../log.ts'
import { type Anvil, endStaleAnvil, launchAnvil } from './anvil.ts'
import { ChainStartError } from './anvil-binary.ts'
import { mineBlocks } from './miner.ts'
import { saveState, settleState, stateFiles, statesToTry } from './state.ts'
import { systemClock } from '../clock.ts'

export type AnvilChain = {
  rpcUrl: string
  port: number
  /** stops the chain after it has written its state */
  stop: () => Promise<void>
  /** exit code when the chain ends for any reason; null if a signal ended it */
  exited: Promise<number | null>
}

export type ChainOptions = {
  /** folder of the state; the caller ensures that only one process uses it */
  dir: string
  /** the port; 0 takes any; undefined takes the previous one, else 8545, else any */
  port?: number | undefined
  blockSeconds: number
  /** empty blocks after a block with transactions; anvil finalizes 2 blocks behind the head */
  settleBlocks?: number
  log: Logger
}

type Start = { dir: string; ports: number[]; genesisSeconds: number; loadFile: string | null }

const USUAL_PORT = 8545
const SAVE_EVERY_MS = 5_000

/**
 * Starts the embedded chain: anvil on 127.0.0.1, chain id 31337, with anvil's well-known development accounts. Their
 * keys are public, so nothing on the chain has value. It continues from its saved state; after a SIGKILL of everything,
 * it may be a few seconds behind. It ends with this process, however that ends.
 * @throws ChainStartError if there is no anvil for this machine, or the port is in use
 */
export async function startChain({
  dir,
  port,
  blockSeconds,
  settleBlocks = 3,
  log,
}: ChainOptions): Promise<AnvilChain> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  await endStaleAnvil(dir, stateFiles(dir).exit)
  const anvil = await launchFromNewestState(dir, await portsToTry(dir, port), log)
  await writeFile(join(dir, 'chain-port'), String(anvil.port))

  const stopMining = mineBlocks({
    rpcUrl: anvil.rpcUrl,
    blockSeconds,
    settleBlocks,
    onTick: saver(dir, anvil.rpcUrl),
    onError: (error) => log.warn('chain_tick_failed', {}, error),
  })
  void anvil.exited.then(stopMining)
  const stop = async () => {
    await stopMining()
    await anvil.stop()
  }
  return { rpcUrl: anvil.rpcUrl, port: anvil.port, stop, exited: anvil.exited }
}

/** Saves new state at most every 5 s and for at most 2 % of the time, because a large state takes a second. */
function saver(dir: string, rpcUrl: string): (moved: boolean) => Promise<void> {
  let isSaved = false
  let nextAtMs = 0
  return async (moved) => {
    const startedMs = systemClock.wall()
    if (moved) isSaved = false
    if (isSaved || startedMs < nextAtMs) return
    await saveState(dir, rpcUrl)
    isSaved = true
    const endedMs = systemClock.wall()
    nextAtMs = endedMs + Math.max(SAVE_EVERY_MS, 50 * (endedMs - startedMs))
  }
}

async function launchFromNewestState(dir: string, ports: number[], log: Logger): Promise<Anvil> {
  const states = await statesToTry(dir)
  const genesisSeconds = (await readNumber(join(dir, 'chain-genesis'))) ?? nowSeconds()
  for (const { name, unpack } of states) {
    const loadFile = await unpack()
    const anvil =
      loadFile === null ? null : await launchOnFreePort({ dir, ports, genesisSeconds, loadFile }).catch(unlessRefused)
    if (anvil !== null) {
      await settleState(dir, loadFile)
      return anvil
    }
    log.warn('chain_state_unreadable', { file: name })
  }
  if (states.length > 0) log.warn('chain_state_discarded', { dir })
  // A new genesis time, so that anything which stored the old chain detects the difference.
  const freshSeconds = nowSeconds()
  await writeFile(join(dir, 'chain-genesis'), String(freshSeconds))
  const anvil = await launchOnFreePort({ dir, ports, genesisSeconds: freshSeconds, loadFile: null })
  await settleState(dir, null)
  return anvil
}

function unlessRefused(error: unknown): null {
  if (error instanceof ChainStartError && error.reason === 'refused') return null
  throw error
}

async function launchOnFreePort({ dir, ports, ...start }: Start): Promise<Anvil> {
  for (const port of ports) {
    try {
      return await launchAnvil({ dir, port, ...start, dumpFile: stateFiles(dir).exit })
    } catch (error) {
      if (!(error instanceof ChainStartError && error.reason === 'port_taken')) throw error
    }
  }
  throw new ChainStartError(
    'port_taken',
    `CHAIN_PORT ${ports[0]} is in use on 127.0.0.1: choose another, or leave it out.`,
  )
}

/** Returns the ports to try. If a requested port is in use, that is an error: no other is tried. */
async function portsToTry(dir: string, wanted: number | undefined): Promise<number[]> {
  if (wanted !== undefined) return [wanted]
  const last = await readNumber(join(dir, 'chain-port'))
  return [...(last === null ? [USUAL_PORT] : [last, USUAL_PORT]), 0]
}

const readNumber = async (path: string): Promise<number | null> =>
  Number(await readFile(path, 'utf8').catch(() => '')) || null
const nowSeconds = (): number => Math.floor(systemClock.wall() / 1_000)
