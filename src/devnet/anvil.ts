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
  // miner.ts decides when to mine a block.
  '--no-mining',
  // `finalized` is then 2 blocks behind the head instead of 64.
  ...['--slots-in-an-epoch', '1'],
  // Mainnet's gas limit per transaction (EIP-7825), which is off by default.
  '--enable-tx-gas-limit',
  // Keep states of the newest blocks in memory only. Otherwise anvil writes older ones to ~/.foundry/anvil/tmp and
  // never deletes them: 12 GB after 36,000 empty blocks. Each retained state costs 150 bytes per block of the chain.
  ...['--prune-history', '64'],
]

/**
 * Starts anvil in its own session, so that Ctrl-C in the terminal ends this process first, which then stops anvil.
 * @param launch.port            0 takes any free port
 * @param launch.genesisSeconds  time of the genesis. Without it anvil creates a new genesis at every start and keeps
 * the loaded one beside it: after two restarts block 0 is randomly one of them
 * @throws ChainStartError if there is no anvil, the port is in use, or the state file was rejected
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
  // From now on it would log a line per call.
  await rpc(rpcUrl, 'anvil_setLoggingEnabled', false)
  // Its clock is still at the genesis.
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

/** Waits until anvil reports that it listens. Probing the port is not enough: another chain may be listening there. */
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
 * Starts a shell that reads from a pipe of ours. However this process ends, SIGKILL included, the shell reads the end
 * of the pipe and stops anvil, which then writes its state. It has its own session, so killing our process group does
 * not reach it.
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
  // Its target has ended, and another process may soon have that id.
  void exited.then(() => guard.kill('SIGKILL'))
  return guard
}

// Clean-up of a chain that survived its parent and its guard.

const pidFile = (dir: string) => join(dir, 'chain.pid')

function writePid(dir: string, child: ChildProcess): void {
  if (child.pid !== undefined) writeFileSync(pidFile(dir), String(child.pid))
}

/** Stops the chain that a killed service left in `dir`, and waits until it has written its state. */
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

/**
 * Returns whether a process is our anvil. Its id may have been reused, so its command line must contain our state file.
 */
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
    // It has ended already.
  }
}
