import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { command, type Ended } from '../../test/command.ts'
import { emptyPostgres, migratedFolder, testCluster, testPooler } from '../../test/database.ts'
import type { RpcServer } from '../../test/rpc-server.ts'
import { openSilentNode } from '../../test/silent-node.ts'
import { world, type World } from '../../test/world.ts'
import { openOperatorDoor } from '../operator/auth.ts'

describe('beside a database that nobody holds', () => {
  let folder: string
  let settings: Record<string, string>
  let node: RpcServer
  let drop: () => Promise<void> = async () => {}
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'chatelaine-cli-'))
    settings = { DATA_DIR: folder }
    if (testCluster === null) await migratedFolder(join(folder, 'db'))
    else {
      const database = await emptyPostgres(testCluster)
      Object.assign(settings, { DATABASE_URL: database.url, DATABASE_POOLER: testPooler })
      drop = database.drop
    }
    node = await openSilentNode({ chainId: 11_155_111 })
  })
  after(async () => {
    await node.close()
    await drop()
    await rm(folder, { recursive: true, force: true })
  })
  const run = (...words: string[]): Promise<Ended> => command(settings, words)
  const json = async (...words: string[]) => {
    const { code, out, err } = await run(...words, '--json')
    assert.deepEqual([code, err], [0, ''])
    return JSON.parse(out)
  }

  test('a network is added from a preset, its node asked, and the node’s address kept in a file of this user alone', async () => {
    const added = await run('network', 'add', 'sepolia', '--rpc-url', node.url)
    assert.deepEqual([added.code, added.err], [0, ''])
    const shown = await json('network', 'show', 'sepolia')
    assert.deepEqual(
      [shown.chainId, shown.symbol, shown.decimals, shown.finality, shown.nodes],
      [11_155_111, 'ETH', 18, 'finalized', 1],
    )
    assert.equal(shown.explorer.tx, 'https://sepolia.etherscan.io/tx/{hash}')
    const file = join(folder, 'networks.json')
    assert.equal((await stat(file)).mode & 0o777, 0o600)
    assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), { sepolia: [node.url] })
    const list = await run('network', 'list')
    const { out } = await run('network', 'show', 'sepolia')
    assert.equal(shown.readFrom, null)
    assert.match(out, /^ +Blocks are read from +-$/m)
    assert.match(out, /^ +Past looked up +from the settings\n +Past transfers +nothing was counted yet$/m)
    for (const text of [JSON.stringify(shown), list.out, added.out, out]) assert.doesNotMatch(text, /key-of-the-node/)
    assert.match(
      list.out,
      /^NAME +CHAIN ID +CURRENCY +GAS +NODES +APPLICATIONS +SERVED\nsepolia +11155111 +ETH +self +1 +0 +-\n$/,
    )
  })

  test('a network by hand names everything that is missing at once, and a node of another chain is refused', async () => {
    const bare = await run('network', 'add', 'Mine', '--decimals', 'x')
    assert.equal(bare.code, 1)
    for (const part of ['explorer', 'name', 'chain id', 'symbol', 'decimals', 'node'])
      assert.match(bare.err, new RegExp(part))
    const byHand = [
      'network',
      'add',
      'mine',
      '--symbol',
      'ME',
      '--explorer',
      'https://scan.example',
      '--rpc-url',
      node.url,
    ]
    const wrong = await run(...byHand, '--chain-id', '5')
    assert.deepEqual([wrong.code, wrong.err], [1, 'the node has chain id 11155111, expected 5\n'])
    const taken = await run(...byHand, '--chain-id', '11155111')
    assert.match(taken.err, /known to this database as sepolia/)
    const silent = await run('network', 'add', 'base', '--rpc-url', 'http://127.0.0.1:9/secret-key')
    assert.deepEqual([silent.code, silent.err], [1, 'No node responds: check the URL and its key.\n'])
    assert.match((await run('network', 'add', 'devnet', '--rpc-url', node.url)).err, /of the settings/)
    assert.deepEqual(
      (await json('network', 'list')).map(({ name }: { name: string }) => name),
      ['sepolia'],
    )
  })

  test('nodes are read from standard input, so that a key stands in no history; what is known already need not be said again', async () => {
    const { code } = await command(
      settings,
      ['network', 'add', 'sepolia', '--finality', '12', '--rpc-url', '-'],
      `${node.url}\nhttp://127.0.0.1:9/other\n`,
    )
    assert.equal(code, 0)
    const shown = await json('network', 'show', 'sepolia')
    assert.deepEqual([shown.finality, shown.nodes, shown.coin], [12, 2, 'Sepolia Ether'])
  })

  test('a network has a fee cap and checks of its own until `default` takes them back', async () => {
    const change = (...words: string[]) => run('network', 'add', 'sepolia', ...words)
    assert.equal(
      (await change('--block-verification', 'count', '--fee-cap-gwei', '40', '--backfill-from', '7')).code,
      0,
    )
    assert.equal((await change('--finality', '13')).code, 0)
    const shown = await json('network', 'show', 'sepolia')
    assert.deepEqual([shown.blockVerification, shown.feeCapGwei, shown.finality], ['count', 40, 13])
    assert.equal(shown.backfillFrom, 7)
    assert.match((await run('network', 'show', 'sepolia')).out, /Fee cap +40 gwei per gas/)
    for (const words of [
      ['--block-verification', 'loose'],
      ['--fee-cap-gwei', '0'],
      ['--fee-cap-gwei', '1.5'],
      ['--backfill-from', 'first'],
    ]) {
      const { code, err } = await change(...words)
      assert.equal(code, 1)
      assert.match(err, /`hash`, `bloom` or `count`|above 0|from 0 on/)
    }
    assert.equal(
      (await change('--block-verification', 'default', '--fee-cap-gwei', 'default', '--backfill-from', 'default')).code,
      0,
    )
    const after = await json('network', 'show', 'sepolia')
    assert.deepEqual([after.blockVerification, after.feeCapGwei, after.backfillFrom], [null, null, null])
  })

  test('a network says who pays for gas: itself until it is said, a sponsor refused with what is missing', async () => {
    assert.equal((await json('network', 'show', 'sepolia')).gas, 'self')
    const space = `0x${'5a'.repeat(20)}`
    for (const [words, sentence] of [
      [['sponsor'], /needs a gas space/],
      [['sponsor', '--gas-space', space], /--accept-unaudited/],
      [['sponsor', '--gas-space', space, '--accept-unaudited'], /Sponsors cannot send for people on this network/],
      [['sponsor', '--gas-space', '0x1'], /must be an address/],
      [['self', '--delegate', 'other'], /delegate must be `chatelaine` or `calibur`/],
      [['free'], /must be `self`, `topup` or `sponsor`/],
    ] as const) {
      const { code, err } = await run('network', 'add', 'sepolia', '--gas', ...words)
      assert.equal(code, 1)
      assert.match(err, sentence)
    }
    for (const change of [
      ['--gas', 'topup'],
      ['--finality', '14'],
    ])
      assert.equal((await run('network', 'add', 'sepolia', ...change)).code, 0)
    assert.match(
      (await run('network', 'show', 'sepolia')).out,
      /^  Gas +topup: .*it has none: chatelaine sponsor create NAME --network sepolia$/m,
    )
    assert.match((await run('network', 'list')).out, /^NAME +.*GAS.*\nsepolia +.* topup /m)
    assert.equal((await run('network', 'add', 'sepolia', '--gas', 'self', '--delegate', 'calibur')).code, 0)
    const chosen = await json('network', 'show', 'sepolia')
    assert.deepEqual([chosen.gas, chosen.delegate], ['self', 'calibur'])
    const sponsored = ['--gas', 'sponsor', '--gas-space', space, '--accept-unaudited']
    assert.match((await run('network', 'add', 'sepolia', ...sponsored)).err, /deploy-gas --delegate calibur/)
    assert.equal((await run('network', 'add', 'sepolia', '--delegate', 'chatelaine')).code, 0)
    assert.equal((await json('network', 'show', 'sepolia')).delegate, 'chatelaine')
  })

  test('of a network that is there what is named is changed and nothing else, and it is said what waits for the next start', async () => {
    const before = await json('network', 'show', 'sepolia')
    const set = (...words: string[]) => run('network', 'set', 'sepolia', ...words)
    const gas = await set('--gas', 'topup', '--fee-cap-gwei', '40')
    assert.deepEqual([gas.code, gas.err], [0, ''])
    assert.match(gas.out, /after its next start: feeCapGwei, gas\.[^]*^  Gas +topup/m)
    const capped = await set('--sponsor-per-day', '1000', '--sponsor-low', '5')
    assert.match(capped.out, /holds in every process from now on/)
    assert.match(capped.out, /^  Sponsors spent +0 wei in 24 hours of 1000$/m)
    assert.match(capped.out, /^  Sponsor is low +below 5 wei$/m)
    assert.deepEqual(await json('network', 'show', 'sepolia'), { ...before, gas: 'topup', feeCapGwei: 40, sponsorPerDay: '1000', sponsorLow: '5' }) // prettier-ignore
    const [probe, other] = ['0x5FbDB2315678afecb367f032d93F642f64180aa3', '0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512']
    const named = await set('--topup-contract', probe, '--topup-contract', other, '--topup-contract', probe)
    assert.match(named.out, /after its next start: topUpContracts\.[^]*^  Sent by accounts .*\n +0x5fbd/m)
    const { topUpContracts } = await json('network', 'show', 'sepolia')
    assert.deepEqual(topUpContracts, [probe.toLowerCase(), other.toLowerCase()])
    assert.equal((await set('--topup-contract', other)).code, 0)
    assert.deepEqual((await json('network', 'show', 'sepolia')).topUpContracts, [other.toLowerCase()])
    assert.doesNotMatch((await set('--topup-contract', 'none')).out, /Sent by accounts/)
    for (const [words, why] of [
      [['--gas', 'sponsor'], /is tried with the nodes before it is kept/],
      [['--gas', 'free'], /must be `self`/],
      [['--topup-contract', '0x12'], /0x12 must be 0x and 40 hexadecimal digits/],
      [['--topup-contract', probe.replace('F', 'f')], /wrong checksum/],
      [['--sponsor-per-day', '1e18'], /must be wei/],
      [['--sponsor-low', `${2n ** 256n}`], /must be wei/],
      [['--decimals', '40'], /decimals must be 0 to 36/],
      [['--decimals', 'many'], /whole number: decimals/],
      [['--explorer-tx', 'https://x.example/tx'], /must have \{hash\}/],
      [[], /Name what is to change/],
      [['--rpc-url', node.url], /unknown option/],
      [['--chain-id', '5'], /unknown option/],
    ] as const) {
      const { code, err } = await set(...words)
      assert.equal(code, 1)
      assert.match(err, why)
    }
    const past = await set('--backfill-from', '4800000')
    assert.match(past.out, /holds in every process from now on[^]*^  Past looked up +from block 4800000 on$/m)
    assert.equal((await json('network', 'show', 'sepolia')).backfillFrom, 4_800_000)
    for (const text of ['-1', '1e6'])
      assert.match((await set('--backfill-from', text)).err, /whole number: backfillFrom|argument missing/)
    assert.equal((await set('--backfill-from', 'default')).code, 0)
    assert.equal((await json('network', 'show', 'sepolia')).backfillFrom, null)
    assert.match((await run('network', 'set', 'mars', '--gas', 'topup')).err, /There is no network mars/)
    assert.match((await run('network', 'set', 'devnet', '--gas', 'topup')).err, /of the settings.*NETWORK_GAS/)
    const [last, , action] = await json('actions', 'list', '--limit', '3')
    assert.deepEqual([action.action, action.target, action.after], ['set-network', 'sepolia', { topUpContracts: [] }]) // prettier-ignore
    assert.deepEqual([last.before, last.after], [{ backfillFrom: 4_800_000 }, { backfillFrom: null }])
    const undone = ['--gas', 'self', '--fee-cap-gwei', 'default', '--sponsor-per-day', 'default', '--sponsor-low', 'default'] // prettier-ignore
    assert.equal((await set(...undone)).code, 0)
    assert.deepEqual(await json('network', 'show', 'sepolia'), before)
  })

  test('an application goes through its whole life', async () => {
    const { application, secret } = await json(
      ...[
        'app',
        'create',
        '--name',
        'Shop',
        '--network',
        'sepolia',
        '--redirect-uri',
        'https://shop.example/callback',
        '--redirect-uri',
        'http://localhost:3000/x',
      ],
      ...[
        '--permission',
        'wallet:read',
        '--permission',
        'users:read',
        '--origin',
        'https://shop.example',
        '--logo',
        'https://shop.example/logo.png',
        '--confidential',
      ],
    )
    assert.match(secret, /^chs_/)
    assert.deepEqual(
      [application.kind, application.redirectUris.length, application.logoUri],
      ['confidential', 2, 'https://shop.example/logo.png'],
    )
    const id: string = application.clientId
    assert.equal((await json('app', 'update', id, '--name', 'Shop 2', '--no-origin', '--no-logo')).name, 'Shop 2')
    const needs = []
    for (const changes of [['--dpop'], ['--name', 'Shop 2'], ['--no-dpop']])
      needs.push((await json('app', 'update', id, ...changes)).needsDpop)
    assert.deepEqual([application.needsDpop, ...needs], [false, true, true, false])
    const quotas = ['--quota', 'writes=100000/day', '--quota', 'reads=5000/hour', '--weight', '2']
    const metered = await json('app', 'update', id, ...quotas)
    assert.deepEqual([metered.quotas, metered.weight], [[{ counts: 'writes', limit: 100_000, per: 'day' }, { counts: 'reads', limit: 5_000, per: 'hour' }], 2]) // prettier-ignore
    assert.match((await run('app', 'usage', id)).out, /^QUOTA +USED +BEGINS ANEW\nwrites=100000\/day +0 +\d{4}-.*T00:00:00\.000Z\nreads=5000\/hour +0 /m) // prettier-ignore
    assert.match((await run('app', 'update', id, '--weight', '3')).out, /writes=100000\/day[^]*Weight +3/)
    const unmetered = await json('app', 'update', id, '--no-quota', '--weight', '1')
    assert.deepEqual([unmetered.quotas, (await json('app', 'usage', id)).quotas], [[], []])
    const budget = ['--sponsor-per-user', '1000000000000000000', '--sponsor-per-application', '5000000000000000000']
    const sponsored = await json('app', 'update', id, ...budget)
    const amounts = { perUser: '1000000000000000000', perApplication: '5000000000000000000' }
    assert.deepEqual(sponsored.sponsor, { ...amounts, contracts: null })
    const [one, two] = [`0x${'Ab'.repeat(20)}`, `0x${'cd'.repeat(20)}`]
    const named = await json('app', 'update', id, '--sponsor-contract', one, '--sponsor-contract', two)
    assert.deepEqual(named.sponsor, { ...amounts, contracts: [one.toLowerCase(), two] })
    assert.match((await run('app', 'show', id)).out, /these addresses only:\n +0xab/)
    assert.deepEqual((await json('app', 'update', id, ...budget)).sponsor, named.sponsor)
    assert.equal((await json('app', 'update', id, '--sponsor-any-contract')).sponsor.contracts, null)
    assert.match((await run('app', 'update', id, '--sponsor-any-contract', '--sponsor-contract', one)).err, /not both/)
    assert.match((await run('app', 'update', id, '--sponsor-contract', '0x12')).err, /40 hexadecimal digits/)
    assert.match((await run('app', 'show', id)).out, /^  Sponsored +1000000000000000000 wei per person, 5000000000000000000 wei in all, in 24 hours$/m) // prettier-ignore
    assert.equal((await json('app', 'update', id, '--no-sponsor')).sponsor, null)
    const shown = await json('app', 'show', id)
    assert.deepEqual(
      [shown.allowedOrigins, shown.logoUri, shown.redirectUris.length, shown.permissions],
      [[], null, 2, ['wallet:read', 'users:read']],
    )
    const rotated = await json('app', 'rotate-secret', id)
    assert.equal(rotated.application.liveSecrets, 2)
    assert.equal((await json('app', 'rotate-secret', id, '--end-old')).application.liveSecrets, 1)
    assert.match((await run('app', 'suspend', id)).out, /within a minute/)
    const list = await run('app', 'list')
    assert.match(list.out, new RegExp(`${id} +Shop 2 +sepolia +confidential +suspended 2`))
    assert.equal((await json('app', 'resume', id)).suspendedAt, null)
    const every = JSON.stringify(await json('app', 'list')) + list.out + JSON.stringify(shown)
    assert.doesNotMatch(every, /chs_|[0-9a-f]{64}/)
    const bound = await run('network', 'remove', 'sepolia')
    assert.deepEqual(
      [bound.code, bound.err],
      [1, 'The network sepolia cannot be removed: applications bound to it: 1.\n'],
    )
  })

  test('a secret is shown once, to a person as well', async () => {
    const { out } = await run(
      'app',
      'create',
      '--name',
      'Seen',
      '--client-id',
      'seen',
      '--network',
      'sepolia',
      '--redirect-uri',
      'https://a.example/',
      '--confidential',
    )
    assert.equal(out.match(/chs_[\w-]{43} +\(shown only once\)/g)?.length, 1)
  })

  test('the version is that of the package', async () => {
    const { version } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as {
      version: string
    }
    assert.deepEqual(await run('--version'), { code: 0, out: `${version}\n`, err: '' })
  })

  test('every refusal is a sentence on standard error and exit code 1; for programs, JSON', async () => {
    const bad = [
      'app',
      'create',
      '--name',
      'Shop',
      '--network',
      'mars',
      '--redirect-uri',
      'http://shop.example/',
      '--permission',
      'fly',
      '--origin',
      'shop',
    ]
    const { code, out, err } = await run(...bad)
    assert.deepEqual([code, out, err.trim().split('\n').length], [1, '', 4])
    const forProgram = await run(...bad, '--json')
    assert.deepEqual(
      JSON.parse(forProgram.err).errors.map(({ pointer }: { pointer: string }) => pointer),
      ['/redirectUris/0', '/permissions/0', '/allowedOrigins/0', '/network'],
    )
    const cases: [string[], RegExp][] = [
      [['app', 'show', 'nobody'], /There is no application/],
      [['app', 'show'], /missing required argument/],
      [['app', 'create', '--colour', 'red'], /unknown option/],
      [['app', 'update', 'x', '--quota', 'writes=5/week'], /Expected, for example, writes=100000\/day/],
      [
        ['app', 'update', 'x', '--sponsor-per-user', '1'],
        /Give both: --sponsor-per-user and --sponsor-per-application/,
      ],
      [['app', 'update', 'x', '--weight', 'heavy'], /Expected a whole number/],
      [['network', 'remove', 'mars'], /There is no network mars/],
      [['dance'], /unknown command/],
    ]
    for (const [words, sentence] of cases) {
      const ended = await run(...words)
      assert.deepEqual([ended.code, ended.out], [1, ''], words.join(' '))
      assert.match(ended.err, sentence)
    }
  })

  test('without an installation nothing is made where nobody meant it', async () => {
    const elsewhere = join(folder, 'elsewhere')
    assert.match((await command({ DATA_DIR: elsewhere }, ['app', 'list'])).err, /There is no installation in/)
    await assert.rejects(stat(elsewhere))
    assert.match(
      (await command({ DATA_DIR: folder, NODE_ENV: 'production' }, ['app', 'list'])).err,
      /DATABASE_URL is missing/,
    )
    const unreachable = await command({ DATABASE_URL: 'postgres://me:password@127.0.0.1:9/x' }, ['app', 'list'])
    assert.equal(unreachable.code, 1)
    assert.match(unreachable.err, /^The database at DATABASE_URL is not responding \(ECONNREFUSED\)/m)
    assert.doesNotMatch(unreachable.err, /password/)
  })

  test('keys of the authorization server are made once and never written over', async () => {
    const keysFile = join(folder, 'keys', 'auth.json')
    const first = await command({ AUTH_KEYS_FILE: keysFile }, ['auth-keys', 'create'])
    assert.equal(first.code, 0)
    const keys = await readFile(keysFile, 'utf8')
    assert.equal((await stat(keysFile)).mode & 0o777, 0o600)
    assert.doesNotMatch(await readFile(join(folder, 'keys', 'auth.public.json'), 'utf8'), /"d"/)
    const second = await command({ AUTH_KEYS_FILE: keysFile }, ['auth-keys', 'create'])
    assert.deepEqual([second.code, await readFile(keysFile, 'utf8')], [1, keys])
    assert.equal((await command({}, ['auth-keys', 'create'])).code, 1)
  })

  test('of an error that is not ours no more is shown than its name and code', async () => {
    await writeFile(join(folder, 'hunter2'), '')
    const inFile = { OPERATOR_TOKEN_FILE: join(folder, 'hunter2', 'inside', 'operators') }
    const { code, err } = await command(inFile, ['operator-token', 'create', '--name', 'mira'])
    assert.equal(code, 1)
    assert.match(err, /^It failed: Error \(E[A-Z]+\)\.\n$/)
  })

  test('a path that is wrong costs no file: keys and tokens are written over nothing else', async () => {
    const keysFile = join(folder, 'precious', 'auth.json')
    await command({ AUTH_KEYS_FILE: keysFile }, ['auth-keys', 'create'])
    const keys = await readFile(keysFile, 'utf8')
    const prepared = await command({ AUTH_KEYS_FILE: keysFile, AUTH_JWKS_FILE: keysFile }, ['auth-keys', 'prepare'])
    assert.deepEqual([prepared.code, /AUTH_JWKS_FILE names a file/.test(prepared.err)], [1, true])
    const added = await command({ OPERATOR_TOKEN_FILE: keysFile }, ['operator-token', 'create', '--name', 'mira'])
    assert.deepEqual([added.code, /OPERATOR_TOKEN_FILE must hold lines/.test(added.err)], [1, true])
    assert.equal(await readFile(keysFile, 'utf8'), keys)

    const file = join(folder, 'edited')
    await writeFile(file, `${'0'.repeat(64)} vera viewer`)
    const { out } = await command({ OPERATOR_TOKEN_FILE: file }, [
      'operator-token',
      'create',
      '--name',
      'mira',
      '--json',
    ])
    const door = await openOperatorDoor({ NODE_ENV: 'production', DATA_DIR: folder, OPERATOR_TOKEN_FILE: file })
    assert.deepEqual(door!.whose(JSON.parse(out).token), { name: 'mira', role: 'operator' })
  })

  test('a token of the operator is shown once, and its file holds the hash', async () => {
    const file = join(folder, 'operators')
    const { out } = await command({ OPERATOR_TOKEN_FILE: file }, [
      'operator-token',
      'create',
      '--name',
      'mira',
      '--json',
    ])
    await command({ OPERATOR_TOKEN_FILE: file }, ['operator-token', 'create', '--name', 'vera', '--role', 'viewer'])
    for (const wrong of [[], ['--name', 'two words'], ['--name', 'x', '--role', 'owner']])
      assert.equal((await command({ OPERATOR_TOKEN_FILE: file }, ['operator-token', 'create', ...wrong])).code, 1)
    const { token } = JSON.parse(out)
    const lines = (await readFile(file, 'utf8')).trim().split('\n')
    assert.equal(lines.length, 2)
    assert.ok(!lines.join().includes(token))
    assert.match(lines[1]!, /^[0-9a-f]{64} vera viewer$/)
    const door = await openOperatorDoor({ NODE_ENV: 'production', DATA_DIR: folder, OPERATOR_TOKEN_FILE: file })
    assert.deepEqual(door!.whose(token), { name: 'mira', role: 'operator' })
    assert.equal((await command({}, ['operator-token', 'create', '--name', 'x'])).code, 1)
  })
})

describe('beside a running server', () => {
  let here: World
  let settings: Record<string, string>
  before(async () => {
    here = await world()
    const { DATABASE_URL } = here.app.config
    // With PostgreSQL the command works by itself and needs the signer; otherwise it asks the server.
    const own: Record<string, string> =
      DATABASE_URL === undefined
        ? {}
        : { DATABASE_URL, DATABASE_POOLER: testPooler, SIGNER_SOCKET: join(here.dataDir, 'signer.sock') }
    settings = { DATA_DIR: here.dataDir, ...own }
  })
  after(() => here.close())

  test('the same commands work, and the server knows at once or within seconds', async () => {
    const made = await command(settings, [
      'app',
      'create',
      '--name',
      'Late',
      '--client-id',
      'late',
      '--network',
      'devnet',
      '--redirect-uri',
      'https://late.example/x',
      '--confidential',
      '--json',
    ])
    assert.deepEqual([made.code, made.err], [0, ''])
    const run = async (...words: string[]) => {
      const { code, out, err } = await command(settings, [...words, '--json'])
      assert.deepEqual([code, err], [0, ''])
      return JSON.parse(out)
    }
    assert.deepEqual(
      (await run('app', 'list')).map(({ clientId }: { clientId: string }) => clientId),
      ['demo', 'late'],
    )
    assert.equal(
      (await run('app', 'update', 'late', '--permission', 'wallet:read', '--permission', 'contracts:read')).permissions
        .length,
      2,
    )
    assert.equal((await run('app', 'update', 'late')).name, 'Late')
    assert.equal((await run('app', 'rotate-secret', 'late')).application.liveSecrets, 2)
    assert.equal((await run('app', 'rotate-secret', 'late', '--end-old')).application.liveSecrets, 1)
    const issuer = ['--provider', 'APP_LATE', '--issuer', 'https://id.late.example', '--audience', 'late', '--max-age', '600'] // prettier-ignore
    const [trusted] = (await run('app', 'trust-issuer', 'late', ...issuer)).issuers
    assert.deepEqual([trusted.provider, trusted.maxAgeSeconds, trusted.jwksUri], ['APP_LATE', 600, null])
    const told = await command(settings, ['app', 'show', 'late'])
    assert.match(told.out, /Trusted issuers +APP_LATE: https:\/\/id\.late\.example, for late/)
    for (const wrong of [
      ['--max-age', 'soon'],
      ['--algorithm', 'HS256'],
      ['--subject-claim', 'email'],
    ])
      // prettier-ignore
      assert.equal((await command(settings, ['app', 'trust-issuer', 'late', ...issuer, ...wrong])).code, 1)
    assert.deepEqual((await run('app', 'distrust-issuer', 'late', 'APP_LATE')).issuers, [])
    const sponsor = await run('sponsor', 'create', 'HOUSE', '--network', 'devnet')
    assert.match(sponsor.address, /^0x[0-9a-fA-F]{40}$/)
    const again = await command(settings, ['sponsor', 'create', 'HOUSE', '--network', 'devnet'])
    assert.match(again.out, new RegExp(`^  Address +${sponsor.address}$[^]*Fund this address`, 'm'))
    const [listed] = await run('sponsor', 'list')
    assert.deepEqual([listed.name, listed.network, listed.address], ['HOUSE', 'devnet', sponsor.address])
    // The embedded chain is in the server: a command beside PostgreSQL has no node to ask.
    assert.equal(listed.balance, settings.DATABASE_URL === undefined ? '0' : null)
    assert.match(
      (await command(settings, ['sponsor', 'list'])).out,
      /^NAME +NETWORK +ADDRESS +BALANCE +OPEN +LOW BELOW *\nHOUSE +devnet +0x/,
    )
    assert.match((await command(settings, ['sponsor', 'create', 'house', '--network', 'devnet'])).err, /upper-case/)
    assert.notEqual((await run('app', 'suspend', 'late')).suspendedAt, null)
    assert.equal((await run('app', 'resume', 'late')).suspendedAt, null)
    assert.equal((await run('app', 'show', 'late')).name, 'Late')
    const { isNew, ...early } = await run('account', 'create', '--provider', 'DEV', '--user-id', 'early')
    assert.deepEqual([isNew, early.userId], [true, 'DEV-early'])
    assert.equal((await here.person('early')).address, early.address)
    const frozen = await run('account', 'freeze', 'DEV-early')
    assert.deepEqual(await run('account', 'frozen'), [frozen])
    assert.match((await command(settings, ['account', 'frozen'])).out, /USER +SINCE\nDEV-early +20\d\d-/)
    assert.equal((await run('account', 'unfreeze', 'DEV-early')).frozenAt, null)
    assert.deepEqual(await run('account', 'sign-out', 'DEV-early'), { userId: 'DEV-early', browsers: 0, applications: 0 }) // prettier-ignore
    assert.equal((await command(settings, ['account', 'frozen'])).out, 'No account is frozen.\n')
    assert.equal((await run('network', 'show', 'devnet')).applications, 2)
    const refused = await command(settings, ['app', 'create', '--network', 'mars'])
    assert.equal(refused.code, 1)
    for (const part of ['name', 'redirect', 'mars|network']) assert.match(refused.err, new RegExp(part))
  })

  test('a token of anybody is had without a browser, from the server that runs', async () => {
    const beside = { ...settings, DATA_DIR: here.dataDir }
    const { code, out } = await command(beside, ['token', 'bob'])
    assert.equal(code, 0)
    const me = await here.request('/v1/me', { headers: { authorization: `Bearer ${out.trim()}` } })
    assert.deepEqual([me.status, me.body.id], [200, 'DEV-bob'])
    // The same person as at the sign-in page, however the name is written.
    for (const name of ['DEV-Zoë', 'ZOË']) {
      const other = JSON.parse((await command(beside, ['token', name, '--json'])).out)
      assert.equal(other.userId, 'DEV-zoë')
    }
    for (const [words, env, why] of [
      [['token', 'GOOGLE-1'], beside, /development sign-in only/],
      [['token', 'new one'], beside, /This is not a valid user name/],
      [['token', 'DEV-new one'], beside, /This is not a valid user name/],
      [['token', 'bob', '--app', 'nobody'], beside, /no application/],
      [['token', 'bob'], { ...beside, NODE_ENV: 'production', DATABASE_URL: 'postgres://x/y' }, /in development only/],
      [
        ['token', 'bob'],
        { DATA_DIR: join(here.dataDir, 'nothing') },
        /No development server runs on DATA_DIR .*npm start/,
      ],
    ] as const) {
      const refused = await command(env, [...words])
      assert.equal(refused.code, 1)
      assert.match(refused.err, why)
    }
  })

  test('what cannot be done while it runs is said plainly', { skip: testCluster !== null }, async () => {
    const { code, err } = await command(settings, ['network', 'remove', 'devnet'])
    assert.equal(code, 1)
    assert.match(err, new RegExp(`Process ${process.pid} is using DATA_DIR .* Stop it, run this again, and restart it`))
    await rm(join(here.dataDir, 'operator-token'))
    assert.match((await command(settings, ['app', 'list'])).err, /cannot be reached/)
    await writeFile(join(here.dataDir, 'operator-token'), 'another-token-that-is-long-enough-to-be-one\n')
    assert.match((await command(settings, ['app', 'list'])).err, /not a token of the operator/)
  })
})
