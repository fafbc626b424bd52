import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { test } from 'node:test'
import { connectSigner } from '../signer/client.ts'
import { ALICE, makePlace } from '../signer/spawned.ts'

const main = join(import.meta.dirname, 'main.ts')

function chatelaine(env: Record<string, string>, ...args: string[]) {
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', main, ...args], {
    env: { PATH: process.env.PATH!, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const seen = { output: '' }
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text) => (seen.output += text))
  const ended = once(child, 'close').then(([code, signal]) => ({ code: (code ?? signal) as number | string, ...seen }))
  return { child, seen, ended }
}

test('the signer is run, verified and asked what it lost by commands; it is the very process that was started', async (t) => {
  const place = await makePlace()
  t.after(() => place.clear())
  const running = chatelaine({ ...place.env, LOG_LEVEL: 'silent' }, 'signer', 'run')
  await once(running.child.stdout, 'data')
  assert.equal(running.seen.output, 'ready\n')
  const client = connectSigner({ path: place.env.SIGNER_SOCKET! })
  await client.createAccount({ userId: ALICE })
  client.close()
  running.child.kill('SIGTERM')
  assert.equal((await running.ended).code, 0)

  const { code, output } = await chatelaine({}, 'signer', 'verify', place.env.SIGNER_DIR!).ended
  assert.deepEqual([code, output], [0, '1 records, 0 signatures, 1 accounts: whole\n'])
  assert.equal((await chatelaine(place.env, 'signer', 'verify').ended).code, 0)
  const shown = await chatelaine(place.env, 'signer', 'accept-restore').ended
  assert.deepEqual([shown.code, /there is nothing to accept/.test(shown.output)], [0, true])
  const refused = await chatelaine(place.env, 'signer', 'accept-restore', '--rpc-url', 'http://127.0.0.1:1', '--accept', 'x').ended // prettier-ignore
  assert.deepEqual([refused.code, /could not be asked/.test(refused.output)], [1, true])
})

test('without settings it names all that is missing', async () => {
  const { code, output } = await chatelaine({}, 'signer', 'run').ended
  assert.equal(code, 1)
  for (const name of ['SIGNER_SOCKET', 'SIGNER_DIR', 'SIGNER_KEK_FILE', 'SIGNER_JWKS_FILE'])
    assert.match(output, new RegExp(`${name} is missing`))
})
