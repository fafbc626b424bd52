import assert from 'node:assert/strict'
import { access, readdir, readFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { sql } from 'kysely'
import { referencePages } from '../src/cli/reference.ts'
import { testDatabase } from './kit/database.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/**
 * Who may import whom (ARCHITECTURE.md). A unit is a folder of src or a file beside them.
 */
const core = [
  'errors',
  'ids',
  'digits',
  'hex',
  'bounded-map',
  'keccak',
  'secp256k1',
  'color',
  'secret-file',
  'sha256',
  'jwk-thumbprint',
  'clock',
  'deadline',
  'state',
  'crash-at',
  'rlp',
  'folder-lock',
  'lines',
  'version',
  'native-decimals',
  'config',
  'log',
  'telemetry',
  'store',
  'chain',
  'abi',
  'messages',
  'signer-wire',
  'app',
  'texts',
  'http',
]
const table: Record<string, string[]> = {
  errors: [],
  ids: [],
  misspelt: [],
  'unique-json': [],
  'bounded-map': [],
  keccak: [],
  secp256k1: [],
  clock: [],
  deadline: [],
  color: [],
  'secret-file': [],
  sha256: [],
  'jwk-thumbprint': [],
  state: [],
  'crash-at': [],
  rlp: [],
  'folder-lock': [],
  lines: [],
  version: [],
  findings: [],
  'verify-log': [],
  backup: [],
  'brand-settings': ['color'],
  digits: ['ids', 'keccak'],
  hex: ['ids'],
  'native-decimals': [],
  config: ['errors', 'ids', 'digits', 'brand-settings', 'misspelt', 'native-decimals'],
  log: ['errors'],
  telemetry: ['errors', 'ids', 'log'],
  messages: ['ids', 'digits', 'hex', 'keccak', 'unique-json'],
  store: ['errors', 'ids', 'hex', 'clock', 'messages'],
  chain: ['errors', 'ids', 'digits', 'bounded-map', 'clock', 'state'],
  abi: ['errors', 'ids', 'digits', 'bounded-map', 'keccak'],
  'signer-wire': ['errors', 'ids', 'clock', 'messages'],
  app: ['errors', 'ids', 'clock', 'state', 'config', 'telemetry', 'store', 'chain', 'abi', 'signer-wire'],
  texts: ['errors'],
  http: [
    'errors',
    'ids',
    'hex',
    'bounded-map',
    'clock',
    'unique-json',
    'state',
    'config',
    'telemetry',
    'store',
    'chain',
    'abi',
    'signer-wire',
    'app',
    'texts',
    'color',
    'version',
  ],
  follower: core,
  tokens: core,
  users: core,
  applications: core,
  'signing-log': core,
  sponsors: [...core, 'users'],
  balances: [...core, 'users', 'applications', 'tokens', 'history'],
  history: [...core, 'users', 'applications', 'tokens', 'follower', 'events'],
  approvals: [...core, 'users', 'applications'],
  events: [...core, 'users', 'applications'],
  webhooks: [...core, 'applications', 'events'],
  signatures: [...core, 'users', 'applications', 'approvals', 'events'],
  transactions: [...core, 'users', 'applications', 'approvals', 'events', 'follower', 'sponsors', 'gas'],
  contracts: [...core, 'users', 'applications', 'transactions'],
  'json-rpc': [...core, 'follower'],
  transfers: [...core, 'users', 'applications', 'tokens', 'transactions'],
  oauth: [...core, 'users', 'applications', 'approvals'],
  account: [
    ...core,
    'users',
    'applications',
    'tokens',
    'balances',
    'history',
    'signatures',
    'transactions',
    'transfers',
    'oauth',
  ],
  'auth-link': [...core, 'users', 'applications', 'oauth'],
  operator: [...core, 'users', 'applications', 'oauth', 'transactions', 'sponsors', 'webhooks'],
  console: [...core, 'users', 'applications', 'oauth', 'transactions', 'sponsors', 'operator', 'webhooks'],
  signer: [
    'errors',
    'ids',
    'digits',
    'hex',
    'bounded-map',
    'clock',
    'crash-at',
    'keccak',
    'rlp',
    'folder-lock',
    'lines',
    'version',
    'findings',
    'secp256k1',
    'jwk-thumbprint',
    'secret-file',
    'backup',
    'config',
    'log',
    'unique-json',
    'messages',
    'signer-wire',
    'gas',
  ],
  snapshot: [...core, 'backup'],
  gas: ['ids', 'hex', 'keccak', 'rlp', 'secp256k1'],
  devnet: [
    'errors',
    'ids',
    'digits',
    'hex',
    'bounded-map',
    'clock',
    'keccak',
    'log',
    'chain',
    'abi',
    'texts',
    'http',
    'gas',
  ],
}
const programParts = ['server', 'closers', 'open-database', 'open-auth', 'open', 'run', 'main', 'auth', 'cli']
const everything = [...Object.keys(table).filter((unit) => unit !== 'signer'), ...programParts]
for (const unit of programParts) table[unit] = everything

/**
 * Rooms: folders within a unit, `low` where the unit stands on them and they know nothing of it, `high` where they stand on
 * the unit and only its entry knows them, and rooms built on them (`below`), `open` where they order files and have no walls.
 */
const rooms: Record<
  string,
  { is: 'low'; sees?: string[] } | { is: 'high'; entry: string; below?: string[] } | { is: 'open' }
> = {
  'chain/rpc': { is: 'low' },
  'oauth/federation': { is: 'low' },
  // How a program of the signer says that it cannot start.
  'signer/kek': { is: 'low', sees: ['signer/refusal.ts'] },
  'signer/policy': { is: 'low' },
  'signer/export': { is: 'open' },
  'signer/keys': { is: 'open' },
  'signer/ledger': { is: 'open' },
  'signer/programs': { is: 'open' },
  'signer/rules': { is: 'open' },
  'signer/tokens': { is: 'open' },
  'signer/verbs': { is: 'open' },
  'cli/doctor': { is: 'high', entry: 'cli/program.ts' },
  'oauth/account': { is: 'high', entry: 'oauth/oauth.ts', below: ['oauth/approvals'] },
  'oauth/approvals': { is: 'high', entry: 'oauth/account/account.ts' },
  'transactions/lanes': { is: 'open' },
  'transactions/read': { is: 'open' },
  'transactions/recovery': { is: 'open' },
  'transactions/settle': { is: 'open' },
  'transactions/sponsors': { is: 'open' },
}

type Import = { from: string; to: string }

/** Programs: what they reach is the product, what only tests reach is test equipment. */
const programs = [
  'main.ts',
  'auth.ts',
  'signer/main.ts',
  'signer/programs/restore-keys.ts',
  'signer/programs/backup.ts',
  'signer/programs/restore.ts',
  'signer/programs/drill.ts',
  'signer/programs/create-backup-key.ts',
  'signer/programs/rotate.ts',
  'signer/programs/verify.ts',
  'signer/programs/accept-restore.ts',
  'signer/programs/create-key.ts',
  'signer/programs/kek-shares.ts',
  'signer/programs/freeze.ts',
  'signer/programs/withdrawal.ts',
  'signer/programs/trust-key.ts',
  'signer/programs/policy-keys.ts',
  'signer/programs/policy-tool.ts',
  'signer/programs/export-all.ts',
  'signer/programs/import-keys.ts',
  'signer/programs/doctor.ts',
]

/** Files of the product, each with its imports. */
async function product(): Promise<Map<string, Import[]>> {
  const commands = (await readdir(join(root, 'src/cli')))
    .filter((name) => name.endsWith('.ts') && !name.endsWith('.test.ts'))
    .map((name) => `cli/${name}`)
  const waiting = [...programs, ...commands]
  const reached = new Map<string, Import[]>()
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (reached.has(file)) continue
    const imports = await importsOf(file)
    reached.set(file, imports)
    waiting.push(...imports.map(({ to }) => to))
  }
  return reached
}

const sources = async (): Promise<string[]> => [...(await product()).keys()].toSorted()

async function importsOf(file: string): Promise<Import[]> {
  const text = await readFile(join(root, 'src', file), 'utf8')
  const found = text.matchAll(
    /^(?:import|export)\s+(?:type\s+)?(?:[^'"();]*?\s+from\s+)?['"](\.[^'"]+)['"]|import\(\s*['"](\.[^'"]+)['"]\s*\)/gm,
  )
  return [...found]
    .map((match) => ({
      from: file,
      to: relative('../src', join('../src', dirname(file), match[1] ?? match[2]!)),
    }))
    .filter(({ to }) => to.endsWith('.ts'))
}

function unitOf(file: string): string {
  return file.includes('/') ? file.slice(0, file.indexOf('/')) : file.replace(/\.ts$/, '')
}

test('every import is allowed by the table', async () => {
  const wrong: string[] = []
  for (const { from, to } of [...(await product()).values()].flat()) {
    const [unit, target] = [unitOf(from), unitOf(to)]
    if (unit !== target && !table[unit]?.includes(target))
      wrong.push(`${from} imports ${to}: ${unit} may not import ${target}`)
  }
  assert.deepEqual(wrong, [])
})

test('rooms have walls: what is below knows nothing of what is above', async () => {
  const wrong: string[] = []
  const met = new Set<string>()
  for (const { from, to } of [...(await product()).values()].flat()) {
    for (const file of [from, to]) if (dirname(file).includes('/')) met.add(dirname(file))
    for (const [room, wall] of Object.entries(rooms)) {
      const [inside, target] = [dirname(from) === room, dirname(to) === room]
      if (wall.is === 'open' || inside === target || unitOf(from) !== unitOf(to)) continue
      if (wall.is === 'low' && inside && wall.sees?.includes(to)) continue
      if (wall.is === 'high' && wall.below?.includes(dirname(from)) === true) continue
      if (wall.is === 'low' ? inside : target && from !== wall.entry) wrong.push(`${from} imports ${to}`)
    }
  }
  assert.deepEqual([...met].toSorted(), Object.keys(rooms).toSorted(), 'a folder within a unit is a room')
  assert.deepEqual(wrong, [])
})

test('src holds what a program reaches, and tests: equipment of tests is in test/, and used', async () => {
  const reached = new Set(await sources())
  const all = (await readdir(join(root, 'src'), { recursive: true })).filter((name) => name.endsWith('.ts'))
  assert.deepEqual(
    all.filter((name) => !reached.has(name) && !name.endsWith('.test.ts')),
    [],
  )
  const wrong = [...(await product()).values()].flat().filter(({ to }) => to.startsWith('..'))
  assert.deepEqual(wrong, [])
})

test('the entry of every folder says what it owns, what not, and which tables it writes; ARCHITECTURE.md lists them', async () => {
  const document = await readFile(join(root, 'ARCHITECTURE.md'), 'utf8')
  const listed = [...document.matchAll(/^\| `([\w/-]+)\/` \| `([\w-]+\.ts)` \| (.+) \|$/gm)]
  const folders = new Set((await sources()).map((file) => dirname(file)).filter((folder) => folder !== '.'))
  assert.deepEqual(
    listed.map(([, folder]) => folder),
    [...folders].toSorted(),
  )
  const writers = await writersOfTables()
  for (const [, folder, entry, is] of listed) {
    const text = await readFile(join(root, 'src', folder!, entry!), 'utf8')
    const caption = /^\/\*\*\n([^]*?)\n \*\/\n/.exec(text)?.[1]!.replace(/^ \* {0,3}/gm, '') ?? ''
    assert.ok(caption.startsWith(`${folder}: ${is}\nOwns: `), `${folder}/${entry} begins with its caption`)
    assert.match(caption, /^Does not own: /m, folder)
    const said = /^Tables: ([\w, ]+)\.$/m.exec(caption.replace(/,\n/g, ', '))?.[1]!.split(', ') ?? []
    const written = folder!.includes('/')
      ? []
      : [...writers].filter(([, units]) => units.has(folder!)).map(([name]) => name)
    assert.deepEqual(said, written.toSorted(), `${folder}: the tables that it writes`)
    for (const [, file] of caption.matchAll(/`([\w/-]+\.ts)`/g))
      await access(join(root, 'src', file!)).catch(() => access(join(root, 'src', folder!, file!)))
  }
})

test('the drawing of requests in ARCHITECTURE.md follows the imports', async () => {
  const document = await readFile(join(root, 'ARCHITECTURE.md'), 'utf8')
  const drawing = /## Requests, hop by hop[^]*?```\n([^]*?)```/.exec(document)![1]!
  const files = await product()
  const above: { depth: number; file: string }[] = []
  let hops = 0
  for (const line of drawing.split('\n')) {
    const [, indent, hook, names] = /^( +)(~> )?((?:[\w/-]+\.ts(?:, )?)+)(?: |$)/.exec(line) ?? []
    if (names === undefined) continue
    const depth = indent!.length + (hook?.length ?? 0)
    while (above.length > 0 && above.at(-1)!.depth >= depth) above.pop()
    for (const file of names.split(', ')) {
      assert.ok(files.has(file), `${file} is drawn, and is no file of the product`)
      if (hook === undefined)
        assert.ok(
          files.get(above.at(-1)!.file)!.some(({ to }) => to === file),
          `${above.at(-1)!.file} does not import ${file}`,
        )
      above.push({ depth, file })
      hops++
    }
  }
  assert.ok(hops > 25)
})

test('the table names every folder, and ARCHITECTURE.md shows the same table', async () => {
  const units = new Set((await sources()).map(unitOf))
  assert.deepEqual(
    [...units].filter((unit) => table[unit] === undefined),
    [],
  )
  assert.deepEqual(
    Object.keys(table).filter((unit) => !units.has(unit)),
    [],
  )
  const document = await readFile(join(root, 'ARCHITECTURE.md'), 'utf8')
  assert.ok(document.includes(tableAsText()), `ARCHITECTURE.md does not show this table:\n${tableAsText()}`)
})

/** The table as ARCHITECTURE.md shows it: a line for all units that may import the same. */
function tableAsText(): string {
  const rest = (allowed: string[]) => ['core', ...allowed.filter((unit) => !core.includes(unit))].join(', ')
  const said = (allowed: string[]): string => {
    if (allowed === everything) return 'everything but `signer`'
    if (allowed.length === 0) return 'nothing'
    return core.every((unit) => allowed.includes(unit)) ? rest(allowed) : allowed.join(', ')
  }
  const lines = new Map<string, string[]>()
  for (const [unit, allowed] of Object.entries(table))
    lines.set(said(allowed), [...(lines.get(said(allowed)) ?? []), unit])
  return [
    '| unit | may import |',
    '|---|---|',
    ...[...lines].map(([allowed, units]) => `| ${units.join(', ')} | ${allowed} |`),
  ].join('\n')
}

test('no files import each other in a circle, by their types neither', async () => {
  const graph = new Map<string, string[]>()
  for (const [file, imports] of await product())
    graph.set(
      file,
      imports.map(({ to }) => to),
    )
  const done = new Set<string>()
  const visit = (file: string, path: string[]): void => {
    assert.ok(!path.includes(file), `a circle: ${[...path.slice(path.indexOf(file)), file].join(' → ')}`)
    if (done.has(file)) return
    for (const next of graph.get(file) ?? []) visit(next, [...path, file])
    done.add(file)
  }
  for (const file of graph.keys()) visit(file, [])
})

test('the generated reference pages are in step with the code', async () => {
  for (const [path, write] of Object.entries(referencePages)) {
    assert.ok(
      (await readFile(join(root, path), 'utf8')) === (await write()),
      `${path} is out of step: run npm run docs`,
    )
  }
})

/** Which units write each table, by builder or by statement. */
async function writersOfTables(of = unitOf): Promise<Map<string, Set<string>>> {
  const tables = new Set(Object.keys(await readRows()))
  const writers = new Map<string, Set<string>>()
  for (const file of await sources()) {
    const text = await readFile(join(root, 'src', file), 'utf8')
    const built = text.matchAll(/(?:\.(?:insertInto|updateTable|deleteFrom)| rowsOf)\(\s*'(\w+)'/g)
    const raw = text.matchAll(/\b(?:insert into|update|delete from)\s+(\w+)\b/g)
    for (const [, name] of [...built, ...raw])
      if (tables.has(name!)) writers.set(name!, (writers.get(name!) ?? new Set()).add(of(file)))
  }
  return writers
}

test('every table is written by one slice only', async () => {
  const shared = [...(await writersOfTables())]
    .filter(([, units]) => units.size > 1)
    .map(([name, units]) => `${name}: ${[...units].join(', ')}`)
  assert.deepEqual(shared, [])
})

test('rows of writes are written by the table of their changes only', async () => {
  const writers = await writersOfTables((file) => file)
  for (const name of ['transactions', 'operations'])
    assert.deepEqual([...writers.get(name)!], ['transactions/rows.ts'], name)
})

test('src/store/rows.ts has the tables and columns that the migrations make', async (t) => {
  const { db, close } = await testDatabase()
  t.after(close)
  const { rows } = await sql<{ table_name: string; column_name: string }>`
    select table_name, column_name from information_schema.columns where table_schema = current_schema()`.execute(db)
  const made: Record<string, string[]> = {}
  for (const { table_name: name, column_name: column } of rows) (made[name] ??= []).push(column)
  const sorted = (tables: Record<string, string[]>) =>
    Object.fromEntries(Object.entries(tables).map(([name, columns]) => [name, columns.toSorted()]))
  assert.deepEqual(sorted(await readRows()), sorted(made))
})

/** Columns by table, as the type `Database` has them. */
async function readRows(): Promise<Record<string, string[]>> {
  const text = await readFile(join(root, 'src/store/rows.ts'), 'utf8')
  const body = text.slice(text.indexOf('export type Database = {')).split('\n}\n')[0]!
  const tables: Record<string, string[]> = {}
  for (const [, name, inline, block] of body.matchAll(/^  (\w+): \{(?: (.*) \}|\n([^]*?)\n  \})$/gm))
    tables[name!] = [...(inline ?? block!).matchAll(inline === undefined ? /^    (\w+)\??:/gm : /(?:^|; )(\w+)\??:/g)].map(([, column]) => column!) // prettier-ignore
  return tables
}

/** What is remembered apart from its owner, and why it has to be: a request of a library's, a connection, a parsed text. */
const apart = [
  'abi/item.ts',
  'http/dpop.ts',
  'http/ending.ts',
  'http/turns.ts',
  'oauth/unit-of-work.ts',
  'store/pool.ts',
]

test('state is held by what it belongs to: no map beside an App, a network, a node or a database', async () => {
  const found = new Set<string>()
  for (const file of await sources()) {
    const text = await readFile(join(root, 'src', file), 'utf8')
    if (/new Weak(Map|Set|Ref)\b/.test(text)) found.add(file)
    assert.doesNotMatch(
      text,
      /new Weak(Map|Set)<\s*(App|Chain|Rpc|RootDb|Db|Head|Signer|FastifyRequest|FastifyInstance)\b/,
      file,
    )
  }
  assert.deepEqual([...found].toSorted(), apart)
})

/** What reads a clock beside `clock.ts`, and why it has to. The list may only get shorter. */
const clocks: Record<string, string> = {
  'clock.ts': 'it is the clock',
  'devnet/anvil.ts': 'start and end of a process of another program',
  'log.ts': 'the time of a line, and the patience of a write that blocks the process',
  'signer/main.ts': 'the end of a process that does not end',
}

/** Where the system's clock is passed from: programs, commands and the programs of a development installation; what is opened without an App. */
const openers =
  /^(cli|devnet|signer|signer-wire|snapshot)\/|^(main|open|open-auth)\.ts$|^store\/(db|pool)\.ts$|^chain\/rpc\/(expensive-calls|http|node|rpc)\.ts$|^oauth\/federation\/check-provider\.ts$/

test('the time is read and waited for by the clock that is passed by hand, and the system has one at its entries only', async () => {
  const [found, named] = [new Set<string>(), new Set<string>()]
  for (const file of await sources()) {
    const text = await readFile(join(root, 'src', file), 'utf8')
    if (/(?<![.\w])set(Timeout|Interval)\b|\bDate\.now\b|\bperformance\.now\b|\bnew Date\(\)/.test(text))
      found.add(file)
    if (/\bsystemClock\b/.test(text) && file !== 'clock.ts') named.add(file)
  }
  assert.deepEqual([...found].toSorted(), Object.keys(clocks).toSorted())
  assert.deepEqual(
    [...named].filter((file) => !openers.test(file)),
    [],
  )
})

/** What asks over HTTP, and whom. Places that others name are asked by the first alone, which judges each address. */
const waysOut: Record<string, string> = {
  'http/outbound.ts': 'identity providers and what they name, and webhooks',
  'auth-link/connect.ts': 'the other program of this installation, by its socket',
  'chain/rpc/http.ts': 'nodes of the configuration, on sockets of its own: the speed of a read',
  'cli/reach.ts': 'the operator API',
  'cli/listen.ts': 'the server of a command line, and the URL to which it forwards events',
  'cli/doctor/check-server.ts': 'the server of this installation, directly and through its proxy',
  'devnet/rpc.ts': 'the node of a development installation',
  'signer/ledger/chain-counts.ts': 'a node of an operator’s command line',
  'signer/kek/service.ts': 'key services of the configuration: answers hold keys and are wiped',
}

test('there is one way out to places that others name, and one for each of the others', async () => {
  const found = new Set<string>()
  for (const file of await sources()) {
    const text = await readFile(join(root, 'src', file), 'utf8')
    if (
      /(?<![.\w])fetch\(|\b(?:https?|net|tls)\)?\.(?:request|get|connect)\(|\brequest as \w+.* from 'node:https?'/.test(
        text,
      )
    )
      found.add(file)
  }
  assert.deepEqual([...found].toSorted(), Object.keys(waysOut).toSorted())
})

/** Tests that wait for wall time, and why. The list may only get shorter. */
const sleepers: Record<string, string> = {
  'chain/rpc/rpc.test.ts': 'a node that hangs up late, and batches that leave in turns of their own, on real sockets',
  'devnet/chain.test.ts': 'another program mines by the clock of the system',
  'events/consumer.test.ts': 'a moment at which another process is killed',
  'folder-lock.test.ts': 'within another process',
  'follower/follow.test.ts': 'left: reads while another process follows',
  'follower/looks.test.ts': 'left: how often a node is looked at, over seconds',
  'http/quotas.test.ts': 'hours end by the clock of the database: none may end within a test',
  'lines.test.ts': 'left: bytes that come in pieces',
  'oauth/gone-meanwhile.test.ts': 'a revocation at a random moment of a refresh',
  'signer/api-user.test.ts': 'within a process of another user, which asks nobody',
  'snapshot/concurrent.test.ts': 'looks until a state of the database is there, within another program',
  'transactions/lanes/chaos.test.ts': 'kills processes at random moments',
  'transactions/lanes/group.test.ts': 'left: twelve writes that have all looked at a row',
  'transactions/recovery/lost-tail-races.test.ts': 'left: a signer that answers late',
  'transactions/lanes/operation-order.test.ts': 'left: repeats that have reached the packing',
  'users/sign-in.test.ts': 'left: a statement that waits for a lock or a connection, which nothing shows',
}

test('tests wait for a state or move a clock, and sleep for nothing', async () => {
  const all = (await readdir(join(root, 'src'), { recursive: true })).filter((name) => name.endsWith('.test.ts'))
  const found = new Set<string>()
  for (const file of all) {
    const text = await readFile(join(root, 'src', file), 'utf8')
    const code = text.replaceAll(/import \{ setImmediate(?: as \w+)? \} from 'node:timers\/promises'/g, '')
    if (/(?<![.\w])set(Timeout|Interval)\b|timers\/promises/.test(code)) found.add(file)
  }
  assert.deepEqual([...found].toSorted(), Object.keys(sleepers).toSorted())
})

test('shapes of the wire stand above verbs: their files import shapes, names of headers and types of nouns', async () => {
  const isShapes = (file: string) => /(^|[/-])wire\.ts$/.test(file) && unitOf(file) !== 'signer-wire'
  const nouns = ['errors.ts', 'ids.ts', 'store/rows.ts', 'store/column-values.ts', 'abi/results.ts', 'chain/network.ts', 'applications/application.ts', 'messages/classify.ts', 'messages/message.ts'] // prettier-ignore
  const wrong: string[] = []
  let files = 0
  for (const [file, imports] of await product()) {
    if (!isShapes(file)) continue
    files++
    for (const { to } of imports)
      if (!isShapes(to) && to !== 'http/openapi-headers.ts' && !nouns.includes(to)) wrong.push(`${file} imports ${to}`)
    const text = await readFile(join(root, 'src', file), 'utf8')
    for (const noun of nouns)
      if (new RegExp(`^import (?!type ).*/${noun.replace('.', '\\.')}'`, 'm').test(text))
        wrong.push(`${file} imports more than types of ${noun}`)
  }
  assert.ok(files > 10)
  assert.deepEqual(wrong, [])
})

test('a bound is named MAX_ or MIN_', async () => {
  const wrong: string[] = []
  for (const file of await sources()) {
    const text = await readFile(join(root, 'src', file), 'utf8')
    for (const [name] of text.matchAll(/\b(?:MOST|LEAST|LONGEST|LARGEST|SHORTEST|SMALLEST)(?:_[A-Z_]+)?\b/g))
      wrong.push(`${file}: ${name}`)
  }
  assert.deepEqual(wrong, [])
})

test('a type is named once in src: two things of one name are told apart by nobody who reads', async () => {
  const homes = new Map<string, string[]>()
  for (const file of await sources()) {
    const text = await readFile(join(root, 'src', file), 'utf8')
    for (const [, name] of text.matchAll(/^(?:export )?(?:type|interface|(?:abstract )?class|enum) (\w+)\b/gm))
      homes.set(name!, [...(homes.get(name!) ?? []), file])
  }
  assert.ok(homes.size > 300)
  const twice = [...homes]
    .filter(([, files]) => files.length > 1)
    .map(([name, files]) => `${name}: ${files.join(', ')}`)
  assert.deepEqual(twice, [])
})

test('an event of the log is named in snake_case', async () => {
  const wrong: string[] = []
  let events = 0
  for (const file of await sources()) {
    const text = await readFile(join(root, 'src', file), 'utf8')
    for (const [, name] of text.matchAll(/\blog(?:\.\w+|\[[^\]]*(?:\[[^\]]*\][^\]]*)?\])\(\s*['"`]([^'"`]*)['"`]/g)) {
      events++
      if (!/^[a-z]+(_[a-z0-9]+)*$/.test(name!)) wrong.push(`${file}: ${name}`)
    }
  }
  assert.ok(events > 50)
  assert.deepEqual(wrong, [])
})

test('a document that a comment or another document names is in the repository', async () => {
  const places = ['src', 'test', 'bench', 'scripts', 'docs', 'migrations', 'README.md', 'ARCHITECTURE.md', 'SECURITY.md', 'CONTRIBUTING.md'] // prettier-ignore
  const files = (
    await Promise.all(
      places.map(async (place) =>
        place.endsWith('.md')
          ? [place]
          : (await readdir(join(root, place), { recursive: true })).map((name) => join(place, name)),
      ),
    )
  )
    .flat()
    .filter((name) => /\.(ts|mjs|sql|md|sh)$/.test(name) && !/house-rules/.test(name))
  const known = new Set(files.filter((name) => name.endsWith('.md')))
  const wrong: string[] = []
  for (const file of files) {
    const text = await readFile(join(root, file), 'utf8')
    for (const [, name] of text.matchAll(/(?<![\w/.:*-])((?:\.{0,2}\/)?[\w/-]+\.md)\b/g))
      if (
        ![name!, join(dirname(file), name!), join('docs', name!)].some(
          (path) => known.has(path) || path === 'CHANGELOG.md',
        )
      )
        wrong.push(`${file}: ${name}`)
  }
  assert.deepEqual(wrong, [])
})

test('the glossary names files that are there', async () => {
  const text = await readFile(join(root, 'docs/glossary.md'), 'utf8')
  const named = [...text.matchAll(/`([\w/-]+(?:\.ts|\/))`/g)].map(([, path]) => path!)
  assert.ok(named.length > 20)
  for (const path of named) await access(join(root, 'src', path))
})

test('no file is a drawer for leftovers', async () => {
  for (const file of await sources())
    assert.doesNotMatch(file, /(^|\/)(utils?|helpers?|common|misc|services|models|types)(\/|\.ts$)/)
})
