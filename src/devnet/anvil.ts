import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { ChainStartError, findAnvil } from './anvil-binary.ts'
import { rpc } from './rpc.ts'

export type Anvil = { port: number; rpcUrl: string; stop: () => Promise<void>; exited: Promise<number | null> }
type Launch = { dir: string; port: number; genesisSeconds: number; loadFile: string | null; dumpFile: string }

const STOP_AFTER_MS = 10_000
const FLAGS = [
  ...['--host', '127.0.0.1', '--chain-id', '31337'],
  // We decide when a block is due, see miner.ts.
  '--no-mining',
  // `finalized` is then two blocks behind the head instead of 64.
  ...['--slots-in-an-epoch', '1'],
  // The limit of one transaction that mainnet has (EIP-7825); off by default.
  '--enable-tx-gas-limit',
  // States of the newest blocks, in memory only. Without it anvil writes every older one to ~/.foundry/anvil/tmp
  // and never removes them: 12 GB after 36,000 empty blocks. Each kept state costs 150 bytes per block of the chain.
  ...['--prune-history', '64'],
]

/**
 * Starts anvil in a session of its own, so that a Ctrl-C in the terminal ends us first and anvil when we say so.
 * @param launch.port            0 takes any free one
 * @param launch.genesisSeconds  when the chain began. Left to itself anvil makes a new genesis at every start and keeps
 *                               the loaded one beside it: after two restarts block 0 is either, at random.
 * @throws ChainStartError: there is no anvil, the port is taken, or the state file was refused
 */
export async function launchAnvil({ dir, port, genesisSeconds, loadFile, dumpFile }: Launch): Promise<Anvil> {
  const load = loadFile === null ? [] : ['--load-state', loadFile]
  const args = ['--port', String(port), '--timestamp', String(genesisSeconds), ...load, '--dump-state', dumpFile]
  const child = spawn(findAnvil(), [...FLAGS, ...args], {
    cwd: dir,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = new Promise<number | null>((resolve) => {
    child.on('error', () => resolve(null))
    child.once('exit', (code) => resolve(code))
  })
  const guard = guardAgainstOurDeath(child, exited)
  writePid(dir, child)
  const takenPort = await listening(child, exited).catch((error: unknown) => {
    child.kill('SIGKILL')
    throw error
  })
  const rpcUrl = `http://127.0.0.1:${takenPort}`
  // From here on it would write a line per call.
  await rpc(rpcUrl, 'anvil_setLoggingEnabled', false)
  // Its clock is at the genesis.
  await rpc(rpcUrl, 'evm_setTime', Math.floor(Date.now() / 1_000))

  const stop = async () => {
    child.kill('SIGTERM')
    const late = setTimeout(() => child.kill('SIGKILL'), STOP_AFTER_MS)
    await exited
    clearTimeout(late)
    guard.kill('SIGKILL')
    rmSync(pidFile(dir), { force: true })
  }
  return { port: takenPort, rpcUrl, stop, exited }
}

/** Waits for anvil's own word that it listens: another chain may answer on the port that it failed to get. */
async function listening(child: ChildProcess, exited: Promise<number | null>): Promise<number> {
  let said = ''
  let complained = ''
  child.stderr!.on('data', (chunk) => (complained = (complained + chunk).slice(-2_000)))
  const ready = new Promise<number>((resolve) => {
    child.stdout!.on('data', function listen(chunk) {
      said += chunk
      const found = /Listening on \S+:(\d+)/.exec(said)
      if (found === null) return
      child.stdout!.off('data', listen).resume()
      resolve(Number(found[1]))
    })
  })
  const port = await Promise.race([ready, exited])
  if (child.exitCode === null && child.signalCode === null && port !== null) return port
  if (/address already in use/i.test(complained))
    throw new ChainStartError('port_taken', 'The port of the embedded chain is in use.')
  throw new ChainStartError('refused', `anvil did not start: ${complained.trim().split('\n')[0] || 'no output'}`)
}

/**
 * A shell that holds the other end of a pipe of ours. However we end, SIGKILL included, it reads the end of the pipe
 * and stops anvil, which then writes its state. It lives in its own session, out of reach of a killed process group.
 */
function guardAgainstOurDeath(child: ChildProcess, exited: Promise<number | null>): ChildProcess {
  const script = `
    read -r _
    kill -TERM "$1" 2>/dev/null
    i=0; while kill -0 "$1" 2>/dev/null && [ $i -lt ${STOP_AFTER_MS / 100} ]; do sleep 0.1; i=$((i+1)); done
    kill -KILL "$1" 2>/dev/null`
  const guard = spawn('/bin/sh', ['-c', script, 'chain-guard', String(child.pid)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  guard.on('error', () => child.kill('SIGKILL'))
  guard.stdin.on('error', () => {})
  guard.unref()
  // Its target is gone: the number may soon belong to another process.
  void exited.then(() => guard.kill('SIGKILL'))
  return guard
}

// A chain that outlived its parent and its guard

const pidFile = (dir: string) => join(dir, 'chain.pid')

function writePid(dir: string, child: ChildProcess): void {
  if (child.pid !== undefined) writeFileSync(pidFile(dir), String(child.pid))
}

/** Ends the chain that a killed service left behind in `dir`, and waits until it has written its state. */
export async function endStaleAnvil(dir: string, dumpFile: string): Promise<void> {
  const pid = readPid(dir)
  if (pid === null || !isOurs(pid, dumpFile)) return
  kill(pid, 'SIGTERM')
  const deadline = Date.now() + STOP_AFTER_MS
  while (isOurs(pid, dumpFile)) {
    if (Date.now() > deadline) kill(pid, 'SIGKILL')
    await wait(20)
  }
}

function readPid(dir: string): number | null {
  try {
    return Number(readFileSync(pidFile(dir), 'utf8')) || null
  } catch {
    return null
  }
}

/** The number may have been given to another process since: only one with our state file on its command line is meant. */
function isOurs(pid: number, dumpFile: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(dumpFile)
  } catch {
    return false
  }
}

function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It ended in between.
  }
}
