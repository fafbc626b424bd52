// tier: all, because it kills a server of an application again and again
import { strict as assert } from 'node:assert'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { DatabaseSync } from 'node:sqlite'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { addMachine } from '../../test/machine.ts'
import { until } from '../../test/kit/until.ts'
import { randomOf } from '../../test/random.ts'
import { world, type World } from '../../test/world.ts'

/** CONSUMER_KILLS=50 is the long form. */
const KILLS = Number(process.env.CONSUMER_KILLS ?? 15)

let here: World
let folder: string
before(async () => {
  here = await world()
  folder = await mkdtemp(join(tmpdir(), 'chatelaine-consumer-'))
})
after(async () => {
  await here.close()
  await rm(folder, { recursive: true, force: true })
})

test('the server of the guide has each effect once, though it is killed at any point and blocks are reorganised', async () => {
  const { secret } = await addMachine(here, 'shop', ['wallet:read', 'contracts:write', 'events:read'])
  const operator = (await readFile(join(here.dataDir, 'operator-token'), 'utf8')).trim()
  const { body } = await here.request('/operator/v1/tokens', {
    method: 'POST',
    headers: { authorization: `Bearer ${operator}`, 'content-type': 'application/json' },
    body: JSON.stringify({ user: 'DEV-alice', clientId: 'shop' }),
  })
  const token = body.token as string
  const api = (path: string, init: RequestInit = {}) =>
    here.request(path, { ...init, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' } })

  const guide = await readFile(new URL('../../docs/build/events.md', import.meta.url), 'utf8')
  const program = join(folder, 'consumer.mjs')
  await writeFile(program, /<!-- run -->\n```js\n([\s\S]*?)```/.exec(guide)![1]!)
  const file = join(folder, 'shop.db')
  let output = ''
  const start = (): ChildProcess => {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', program], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { PATH: process.env.PATH, ORIGIN: here.facts.origin, CLIENT_ID: 'shop', CLIENT_SECRET: secret, FILE: file },
    })
    child.stderr!.on('data', (chunk: Buffer) => (output += chunk.toString()))
    return child
  }

  const random = randomOf(11)
  const ids: string[] = []
  let reorganisations = 0
  for (let kill = 0; kill < KILLS; kill++) {
    const child = start()
    const { body: sent } = await api('/v1/contracts/method/write', {
      method: 'POST',
      body: JSON.stringify({
        address: here.facts.contracts.erc20,
        abi: 'mint(address,uint256) public',
        args: [here.alice.address, '1'],
      }),
    })
    ids.push(sent.id)
    if (random(4) === 0) {
      await here.rpc('anvil_reorg', 1 + random(3), []).catch(() => {})
      reorganisations++
    }
    await new Promise((resolve) => setTimeout(resolve, random(250)))
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  for (const id of ids) await api(`/v1/transactions/${id}?wait=mined`)
  const child = start()
  const outcomes = () => {
    const db = new DatabaseSync(file, { readOnly: true })
    try {
      return db.prepare('select transaction_id as id, type from outcomes').all() as { id: string; type: string }[]
    } finally {
      db.close()
    }
  }
  const states = new Map<string, string>()
  await until('the server knows the state of each transaction', async () => {
    for (const id of ids) {
      const { state } = (await api(`/v1/transactions/${id}`)).body
      states.set(id, state === 'FINALIZED' ? 'transaction.mined' : `transaction.${String(state).toLowerCase()}`)
    }
    const known = new Map(outcomes().map(({ id, type }) => [id, type]))
    return ids.every((id) => known.get(id) === states.get(id))
  })
  child.kill('SIGKILL')
  await once(child, 'exit')
  assert.deepEqual(
    outcomes()
      .map(({ id }) => id)
      .toSorted(),
    ids.toSorted(),
  )
  assert.ok(reorganisations > 0)
  assert.equal(output, '')
})
