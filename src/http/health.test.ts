// tier: all, because it opens a world for each of its tests
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from 'kysely'
import { until } from '../../test/kit/until.ts'
import { world } from '../../test/world.ts'
import type { App } from '../app.ts'
import { readAt } from '../chain/reads.ts'
import { WrongChain } from '../chain/rpc/failures.ts'
import { RpcUnavailable } from '../chain/rpc/rpc.ts'
import { openListener } from './listener.ts'
import { health, openOperatorsListener } from './health.ts'

const serving = (isDraining: () => boolean = () => false) => ({ isDraining })

/** The same installation as its operator would run it. */
const inProduction = (app: App): App => ({
  ...app,
  origin: 'https://wallet.example',
  config: { ...app.config, NODE_ENV: 'production' },
})

test('strangers learn of production that it is ready, and not what is behind; operators see all on a listener of their own', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const app = inProduction(here.app)
  const open = openListener(app)
  health(open, app, serving())
  const own = await openOperatorsListener(app, { host: '127.0.0.1', port: 0 }, serving())
  t.after(() => Promise.all([open.close(), own.close()]))

  const ready = await open.inject('/readyz')
  assert.deepEqual([ready.statusCode, ready.json()], [200, { status: 'ready' }])
  assert.equal((await open.inject('/metrics')).statusCode, 404)
  assert.equal((await open.inject('/healthz')).statusCode, 200)

  const { port } = own.server.address() as { port: number }
  const ask = (path: string) => here.request(`http://127.0.0.1:${port}${path}`)
  const told = await ask('/readyz')
  assert.deepEqual([told.status, told.body.checks.map(({ name }: { name: string }) => name)], [200, ['database', 'signer', 'chain devnet']]) // prettier-ignore
  assert.match((await ask('/metrics')).body, /http_request_seconds/)
  for (const path of ['/v1/me', '/', '/oauth/jwks', '/operator/v1/networks'])
    assert.equal((await ask(path)).status, 404, path)
  await assert.rejects(
    openOperatorsListener(app, { host: '127.0.0.1', port }, serving()),
    /^Error: OPS_LISTEN cannot be listened on: EADDRINUSE$/,
  )
})

test('a thousand who ask whether we are ready at once are answered by one look', async (t) => {
  const here = await world()
  t.after(() => here.close())
  let asked = 0
  const signer = { ...here.app.signer, health: async () => (asked++, here.app.signer.health()) }
  // However long a thousand take.
  const clock = { ...here.app.clock, ticks: () => 60_000 }
  const app = inProduction({ ...here.app, signer, clock })
  const open = openListener(app)
  health(open, app, serving())
  t.after(() => open.close())
  const answers = await Promise.all(Array.from({ length: 1_000 }, () => open.inject('/readyz')))
  assert.ok(answers.every(({ statusCode }) => statusCode === 200))
  assert.ok(asked <= 2, `${asked} looks`)
})

test('a network whose node is away leaves sign-in in service; a signer that is away, and a database that refuses writes, do not', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const [[chainId, chain]] = [...here.app.chains] as [[number, NonNullable<ReturnType<App['chains']['get']>>]]
  const away = async () => {
    throw new Error('away')
  }
  const node = { ...chain.head.node, silentMs: () => 3_001 }
  const chains = new Map([[chainId, { ...chain, head: { ...chain.head, node } }]])
  const withoutNode = { ...here.app, chains } as App
  const open = openListener(withoutNode)
  health(open, withoutNode, serving())
  const withoutSigner = { ...here.app, signer: { ...here.app.signer, health: away } } as App
  const unready = openListener(withoutSigner)
  const full = openListener(here.app)
  health(full, { ...here.app, writesRefused: () => 'its disk is full' }, serving())
  let isDraining = false
  health(unready, withoutSigner, serving())
  const ending = openListener(here.app)
  health(
    ending,
    here.app,
    serving(() => isDraining),
  )
  t.after(() => Promise.all([open.close(), unready.close(), full.close(), ending.close()]))

  const answer = await open.inject('/readyz')
  assert.deepEqual([answer.statusCode, answer.json().checks.at(-1)], [200, { name: 'chain devnet', ok: false, detail: 'the node has given no usable answer for 3 s' }]) // prettier-ignore
  assert.equal((await unready.inject('/readyz')).statusCode, 503)
  const refused = await full.inject('/readyz')
  assert.deepEqual([refused.statusCode, refused.json().checks[0]], [503, { name: 'database', ok: false, detail: 'the database answers, and refuses writes: its disk is full' }]) // prettier-ignore
  assert.equal((await ending.inject('/readyz')).statusCode, 200)
  isDraining = true
  assert.equal((await ending.inject('/readyz')).statusCode, 503)
})

test('a follower that stands still while the node goes on is told, although reads confirm the head', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const [chain] = [...here.app.chains.values()]
  const check = async () => (await here.request('/readyz')).body.checks.at(-1)
  await until('all is well', async () => {
    const { ok, historyBehind } = await check()
    return ok && historyBehind === undefined
  })
  const { batch } = chain!.rpc
  chain!.rpc.batch = () => Promise.reject(new RpcUnavailable('the node knows no receipts', { timedOut: false }))
  const [from] = (await here.rpc('eth_accounts')) as string[]
  await here.rpc('eth_sendTransaction', { from, to: from })
  await here.rpc('evm_mine')
  await until('the node is ahead', async () => (await readAt(chain!, 'latest', async ({ block }) => block.number)) > 0)
  assert.deepEqual(await check(), { name: 'chain devnet', ok: true })

  const { now } = performance
  let offsetMs = 0
  t.mock.method(performance, 'now', () => now.call(performance) + offsetMs)
  const told = await until('it is told', async () => {
    offsetMs += 5_000
    await readAt(chain!, 'latest', async () => null)
    const { ok, detail } = await check()
    return !ok && /cannot take/.test(detail) ? detail : null
  })
  assert.match(
    told,
    /^the follower is stuck at block \d+, \d+ behind the node, and cannot take the next one: the node knows no receipts$/,
  )
  chain!.rpc.batch = batch
  await until('it goes on', async () => {
    offsetMs += 1_100
    return (await check()).ok
  })
})

test('a history that is behind says by how many blocks, and is told when it does not move', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const check = async () => (await here.request('/readyz')).body.checks.at(-1)
  await until('all is well', async () => (await check()).ok)
  const { db } = here.app
  const metrics = async () => (await fetch(`${here.facts.origin}/metrics`)).text()
  // The history cannot move its cursor any more, and transactions can.
  await sql`alter table history_cursors rename column updated_at to away`.execute(db)
  const [from] = (await here.rpc('eth_accounts')) as string[]
  for (let count = 0; count < 3; count++) {
    await here.rpc('eth_sendTransaction', { from, to: from })
    await here.rpc('evm_mine')
  }
  await until('it says so', async () => {
    const { ok, historyBehind } = await check()
    return ok === true && historyBehind >= 3
  })
  const { now } = performance
  let offsetMs = 0
  t.mock.method(performance, 'now', () => now.call(performance) + offsetMs)
  const told = await until('it is told', async () => {
    offsetMs += 5_000
    const { ok, detail } = await check()
    return ok ? null : /^the history is stuck/.test(detail) && detail
  })
  assert.match(told, /^the history is stuck at block \d+, \d+ behind the follower$/)
  assert.match(await metrics(), /^cursor_lag_blocks\{chain_id="31337",cursor="transactions"\} 0$/m)
  await sql`alter table history_cursors rename column away to updated_at`.execute(db)
  await until('it goes on', async () => {
    offsetMs += 1_100
    const { ok, historyBehind } = await check()
    return ok && historyBehind === undefined
  })
  assert.match(await metrics(), /^cursor_lag_blocks\{chain_id="31337",cursor="history"\} 0$/m)
})

test('a network whose node does not give receipts together is well, and says what is read instead', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const check = async () => (await here.request('/readyz')).body.checks.at(-1)
  const seen = async (readFrom: string) => {
    await here.app.db.updateTable('cursors').set({ read_from: readFrom }).execute()
    return until('it is looked at again', async () => {
      const { readFrom: said, ok } = await check()
      return ok === true && (readFrom === 'block receipts' ? said === undefined : said === readFrom)
    })
  }
  await until('all is well', async () => (await check()).ok)
  for (const readFrom of ['logs', 'receipts', 'block receipts']) await seen(readFrom)
})

test('a question whether we are ready asks no node', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const [[chainId, chain]] = [...here.app.chains] as [[number, NonNullable<ReturnType<App['chains']['get']>>]]
  const asked: string[] = []
  const refuse = (method: string) => {
    asked.push(method)
    return Promise.reject(new Error('asked'))
  }
  const rpc = { ...chain.rpc, call: refuse, batch: ([first]: { method: string }[]) => refuse(first!.method) }
  const app = { ...here.app, chains: new Map([[chainId, { ...chain, rpc }]]) } as App
  const open = openListener(app)
  health(open, app, serving())
  t.after(() => open.close())
  const last = async () => (await open.inject('/readyz')).json().checks.at(-1)
  await until('all is well', async () => (await last()).ok)
  assert.deepEqual(asked, [])
})

test('a node that hangs is told after three seconds, one of another chain immediately, and both are well when they answer', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const [chain] = [...here.app.chains.values()]
  const check = async () => (await here.request('/readyz')).body.checks.at(-1)
  await until('all is well', async () => (await check()).ok)
  const { now } = performance
  let offsetMs = 0
  // Stands still while it is asked: a slow machine must not pass for a silent node.
  let standing: number | null = null
  t.mock.method(performance, 'now', () => (standing ?? now.call(performance)) + offsetMs)
  const { call } = chain!.rpc
  const after = (ms: number) => {
    offsetMs += ms
    return check()
  }
  const { promise: hanging, reject: end } = Promise.withResolvers<never>()
  let isAsked = false
  // Of its newest block alone: a follower that waits for another answer would not ask for that.
  chain!.rpc.call = (method, params, ...more) => {
    if (method !== 'eth_getBlockByNumber' || params?.[0] !== 'latest') return call(method, params, ...more)
    isAsked = true
    return hanging
  }
  // What was asked before is answered by then, or it would count as an answer.
  await until('it is asked', () => isAsked && chain!.head.node.silentMs() > 0)
  standing = now.call(performance)
  assert.equal((await after(1_100)).detail, undefined)
  assert.match((await after(2_000)).detail, /^the node has given no usable answer for \d s$/)
  standing = null
  chain!.rpc.call = () => Promise.reject(new WrongChain())
  end(new RpcUnavailable('late', { timedOut: true }))
  await until('it is told', async () => /serves another chain/.test((await after(1_100)).detail))
  chain!.rpc.call = call
  await until('it goes on', async () => (await after(1_100)).ok)
})

test('a network without news of its head is told after fifteen seconds and two blocks as they come there', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const [[chainId, chain]] = [...here.app.chains] as [[number, NonNullable<ReturnType<App['chains']['get']>>]]
  const detailOf = async (ageMs: number, intervalMs: number | null) => {
    const head = { ...chain.head, ageMs: () => ageMs, pace: { ...chain.head.pace, intervalMs: () => intervalMs } }
    const app = { ...here.app, chains: new Map([[chainId, { ...chain, head }]]) } as App
    const open = openListener(app)
    health(open, app, serving())
    try {
      return (await open.inject('/readyz')).json().checks.at(-1).detail
    } finally {
      await open.close()
    }
  }
  await until('it is followed', async () => (await detailOf(0, null)) === undefined)
  assert.equal(await detailOf(14_900, null), undefined)
  assert.equal(await detailOf(15_100, null), 'the follower has not looked at the node for 15 s')
  assert.equal(await detailOf(38_900, 12_000), undefined)
  assert.equal(await detailOf(39_100, 12_000), 'the follower has not looked at the node for 39 s')
})

test('a signer that does not trust the key in use, refuses what tokens live for, does not sign for a network, or whose master key is away, is named', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const checksWith = async (changes: object) => {
    const signer = { ...here.app.signer, health: async () => ({ ...(await here.app.signer.health()), ...changes }) }
    const app = { ...here.app, signer } as App
    const open = openListener(app)
    health(open, app, serving())
    try {
      const { checks } = (await open.inject('/readyz')).json() as { checks: { name: string; detail?: string }[] }
      return checks.flatMap(({ name, detail }) => (detail === undefined ? [] : [`${name}: ${detail}`]))
    } finally {
      await open.close()
    }
  }
  await until('all is well', async () => (await checksWith({})).length === 0)
  const [untrusted] = await checksWith({ tokenKeys: ['another'] })
  assert.match(untrusted!, /^signer: .*does not trust the key that tokens are signed with/)
  const { ACCESS_TOKEN_SECONDS } = here.app.config
  assert.deepEqual(await checksWith({ maxTokenSeconds: ACCESS_TOKEN_SECONDS }), [])
  const [short] = await checksWith({ maxTokenSeconds: ACCESS_TOKEN_SECONDS - 1 })
  assert.match(short!, /^signer: .*SIGNER_MAX_TOKEN_SECONDS is below ACCESS_TOKEN_SECONDS/)
  const [away] = await checksWith({ masterKey: { provider: 'vault', fault: 'Vault does not answer.' } })
  assert.equal(away, 'signer: the master key (KEK) cannot be used: Vault does not answer.')
  const [unlisted] = await checksWith({ chains: [1] })
  assert.match(unlisted!, /^chain devnet: .*SIGNER_CHAINS/)
})

test('operators see which policy the signer decides by, and why not by that of its file; it makes no server unready', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const look = async (policy: object | null, more: object = {}) => {
    const signer = {
      ...here.app.signer,
      health: async () => ({ ...(await here.app.signer.health()), policy, ...more }),
    }
    const app = { ...here.app, signer } as App
    const open = openListener(app)
    health(open, app, serving())
    try {
      const response = await open.inject('/readyz')
      const { checks } = response.json() as { checks: { name: string; policy?: unknown }[] }
      const { values } = await app.telemetry.signerPolicy.get()
      return [response.statusCode, checks.find(({ name }) => name === 'signer')!.policy, values.map((one) => one.labels)] // prettier-ignore
    } finally {
      await open.close()
    }
  }
  assert.deepEqual(await look(null), [200, null, []])
  const inForce = { version: 3, hash: 'ab', state: 'file', rules: 4, asksUsers: true, problem: null }
  const refused = { ...inForce, state: 'refused', problem: 'version 2 is older than 3' }
  const shown = (policy: typeof inForce | typeof refused, code = 200) => [
    ...[code, { ...policy, since: '1970-01-01T00:00:01.000Z' }],
    [{ version: '3', hash: 'ab', state: policy.state }],
  ]
  for (const policy of [inForce, refused]) assert.deepEqual(await look({ ...policy, since: 1_000 }), shown(policy))
  // Whatever else is wrong with a signer that answers.
  for (const more of [{ revocations: 'stale' }, { tokenKeys: [] }, { maxTokenSeconds: 1 }]) {
    await look(null)
    assert.deepEqual(await look({ ...inForce, since: 1_000 }, more), shown(inForce, 503))
  }
})

test('the address that the server sees behind its proxies is shown to operators only, for the last few probes', async (t) => {
  const here = await world()
  t.after(() => here.close())
  const behind = (TRUST_PROXY: number): App => {
    const app = inProduction(here.app)
    return { ...app, config: { ...app.config, TRUST_PROXY } }
  }
  const idOf = (number: number) => number.toString(16).padStart(32, '0')
  const probe = async (app: App, forwardedFor: string | undefined, id = idOf(1)) => {
    const open = openListener(app)
    health(open, app, serving())
    const own = await openOperatorsListener(app, { host: '127.0.0.1', port: 0 }, serving())
    try {
      const headers = forwardedFor === undefined ? {} : { 'x-forwarded-for': forwardedFor }
      assert.deepEqual((await open.inject({ url: `/healthz?probe=${id}`, headers })).json(), { status: 'ok' })
      assert.equal((await open.inject(`/proxy-probe/${id}`)).statusCode, 404)
      return (await own.inject(`/proxy-probe/${id}`)).json()
    } finally {
      await Promise.all([open.close(), own.close()])
    }
  }
  const forged = '192.0.2.77'
  const peer = '127.0.0.1'
  // One proxy that is trusted; no proxy although one is trusted; a proxy that is not trusted.
  assert.deepEqual(await probe(behind(1), `${forged}, 203.0.113.9`), { client: '203.0.113.9', peer, forwardedFor: `${forged}, 203.0.113.9` }) // prettier-ignore
  assert.deepEqual(await probe(behind(1), forged), { client: forged, peer, forwardedFor: forged })
  assert.deepEqual(await probe(behind(0), `${forged}, 203.0.113.9`), { client: peer, peer, forwardedFor: `${forged}, 203.0.113.9` }) // prettier-ignore
  assert.deepEqual(await probe(behind(1), undefined), { client: peer, peer, forwardedFor: null })
  assert.deepEqual(await probe(behind(1), forged, 'not an id'), { status: 'unknown' })

  const app = behind(1)
  const open = openListener(app)
  health(open, app, serving())
  const own = await openOperatorsListener(app, { host: '127.0.0.1', port: 0 }, serving())
  t.after(() => Promise.all([open.close(), own.close()]))
  for (let number = 100; number < 200; number++) await open.inject(`/healthz?probe=${idOf(number)}`)
  assert.equal((await own.inject(`/proxy-probe/${idOf(100)}`)).statusCode, 404)
  assert.equal((await own.inject(`/proxy-probe/${idOf(199)}`)).statusCode, 200)
})
