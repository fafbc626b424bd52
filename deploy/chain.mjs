/** The development chain of compose.yaml: anvil with a block per second, whose state outlives the container. */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'

const FOLDER = '/chain'
const PORT = 8545
// 16 blocks until finality: a chain that is killed loses the blocks since its last state.
const genesis = `${FOLDER}/genesis`
// With another genesis, it would be another chain after a restart.
if (!existsSync(genesis)) writeFileSync(genesis, String(Math.floor(Date.now() / 1_000)))
const anvil = spawn(
  'anvil',
  [
    ...['--host', '0.0.0.0', '--port', String(PORT), '--chain-id', '31337', '--slots-in-an-epoch', '8', '--quiet'],
    ...['--timestamp', readFileSync(genesis, 'utf8'), '--state', `${FOLDER}/state.json`, '--state-interval', '5'],
    ...['--no-mining', '--prune-history', '64'],
  ],
  { stdio: 'inherit' },
)
for (const signal of ['SIGINT', 'SIGTERM']) process.on(signal, () => anvil.kill('SIGTERM'))
anvil.once('exit', (code) => process.exit(code ?? 1))

const call = (method, ...params) =>
  fetch(`http://127.0.0.1:${PORT}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  })
for (;;) {
  // Its clock starts at the genesis.
  const isUp = await call('evm_setTime', Math.floor(Date.now() / 1_000)).then(() => true, () => false) // prettier-ignore
  if (isUp) break
  await new Promise((resolve) => setTimeout(resolve, 100))
}
await call('evm_setIntervalMining', 1)
console.log('The development chain is ready.')
