// tier: all, because it opens an installation for each of its commands
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { idleInstallation, type IdleInstallation } from '../../test/installation.ts'
import { openSilentNode } from '../../test/silent-node.ts'

let here: IdleInstallation
before(async () => {
  here = await idleInstallation()
  const node = await openSilentNode({ chainId: 11_155_111 })
  assert.equal((await here.run('network', 'add', 'sepolia', '--rpc-url', node.url)).code, 0)
  await node.close()
})
after(() => here.close())

const SHOP = [
  ...['--name', 'Shop', '--network', 'sepolia', '--confidential'],
  ...['--redirect-uri', 'https://shop.example/callback', '--redirect-uri', 'http://localhost:3000/x'],
  ...['--permission', 'wallet:read', '--permission', 'users:read'],
  ...['--origin', 'https://shop.example', '--logo', 'https://shop.example/logo.png'],
]

test('an application goes through its whole life; its secrets are in no other answer', async () => {
  const { application, secret } = await here.json('app', 'create', ...SHOP)
  assert.match(secret, /^chs_/)
  assert.deepEqual(
    [application.kind, application.redirectUris.length, application.logoUri, application.needsDpop],
    ['confidential', 2, 'https://shop.example/logo.png', false],
  )
  const id: string = application.clientId
  const bye = await here.json('app', 'update', id, '--post-logout-redirect-uri', 'https://shop.example/bye', '--first-party') // prettier-ignore
  assert.deepEqual([bye.postLogoutRedirectUris, bye.isFirstParty], [['https://shop.example/bye'], true])
  assert.match(
    (await here.run('app', 'show', id)).out,
    /First party +yes[^]*After signing out +https:\/\/shop\.example\/bye/,
  )
  const none = await here.json('app', 'update', id, '--no-post-logout-redirect-uri', '--no-first-party')
  assert.deepEqual([none.postLogoutRedirectUris, none.isFirstParty], [[], false])
  const changed = await here.json('app', 'update', id, '--name', 'Shop 2', '--no-origin', '--no-logo')
  assert.deepEqual([changed.name, changed.allowedOrigins, changed.logoUri], ['Shop 2', [], null])
  assert.equal((await here.json('app', 'rotate-secret', id)).application.liveSecrets, 2)
  assert.equal((await here.json('app', 'rotate-secret', id, '--end-old')).application.liveSecrets, 1)
  assert.match((await here.run('app', 'suspend', id)).out, /within a minute/)
  const list = await here.run('app', 'list')
  assert.match(list.out, new RegExp(`${id} +Shop 2 +sepolia +confidential +suspended 2`))
  assert.equal((await here.json('app', 'resume', id)).suspendedAt, null)
  const shown = await here.json('app', 'show', id)
  assert.deepEqual([shown.redirectUris.length, shown.permissions], [2, ['wallet:read', 'users:read']])
  const every = JSON.stringify(await here.json('app', 'list')) + list.out + JSON.stringify(shown)
  assert.doesNotMatch(every, /chs_|[0-9a-f]{64}/)
})

test('a secret is shown once, to a person as well', async () => {
  const { out } = await here.run('app', 'create', ...SHOP, '--client-id', 'seen')
  assert.equal(out.match(/chs_[\w-]{43} +\(shown only once\)/g)?.length, 1)
})

test('an application has quotas, a weight, a key for its tokens and a budget until they are taken away; what is not named stays', async () => {
  assert.equal((await here.run('app', 'create', ...SHOP, '--client-id', 'metered')).code, 0)
  const update = (...words: string[]) => here.json('app', 'update', 'metered', ...words)
  const [one, two] = [`0x${'Ab'.repeat(20)}`, `0x${'cd'.repeat(20)}`]
  const budget = ['--sponsor-per-user', '1000000000000000000', '--sponsor-per-application', '5000000000000000000']
  const amounts = { perUser: '1000000000000000000', perApplication: '5000000000000000000' }
  const contracts = [one.toLowerCase(), two]
  const quotas = [{ counts: 'writes', limit: 100_000, per: 'day' }, { counts: 'reads', limit: 5_000, per: 'hour' }] // prettier-ignore
  const all = await update(...['--quota', 'writes=100000/day', '--quota', 'reads=5000/hour', '--weight', '2', '--dpop'], ...budget) // prettier-ignore
  assert.deepEqual(
    [all.quotas, all.weight, all.needsDpop, all.sponsor],
    [quotas, 2, true, { ...amounts, contracts: null }],
  )
  const named = await update('--sponsor-contract', one, '--sponsor-contract', two)
  assert.deepEqual([named.sponsor, named.needsDpop, named.quotas], [{ ...amounts, contracts }, true, quotas])
  assert.deepEqual((await update(...budget, '--weight', '3')).sponsor, named.sponsor)
  const { out } = await here.run('app', 'show', 'metered')
  assert.match(out, /writes=100000\/day[^]*Weight +3/)
  assert.match(
    out,
    /^  Sponsored +1000000000000000000 wei per user and 5000000000000000000 wei in total, in 24 hours$/m,
  )
  assert.match(out, /these addresses only:\n +0xab/)
  assert.match((await here.run('app', 'usage', 'metered')).out, /^QUOTA +USED +RESETS AT\nwrites=100000\/day +0 +\d{4}-.*T00:00:00\.000Z\nreads=5000\/hour +0 /m) // prettier-ignore
  const less = await update('--no-quota', '--weight', '1', '--no-dpop', '--sponsor-any-contract')
  assert.deepEqual([less.quotas, less.needsDpop, less.sponsor.contracts], [[], false, null])
  assert.deepEqual((await here.json('app', 'usage', 'metered')).quotas, [])
  for (const [words, why] of [
    [['--sponsor-any-contract', '--sponsor-contract', one], /not both/],
    [['--sponsor-contract', '0x12'], /40 hexadecimal digits/],
    [['--sponsor-per-user', '1'], /Give both --sponsor-per-user and --sponsor-per-application/],
    [['--quota', 'writes=5/week'], /Expected, for example, writes=100000\/day/],
    [['--weight', 'heavy'], /Expected a whole number/],
  ] as const) {
    const { code, err } = await here.run('app', 'update', 'metered', ...words)
    assert.equal(code, 1)
    assert.match(err, why)
  }
  assert.equal((await update('--no-sponsor')).sponsor, null)
})
