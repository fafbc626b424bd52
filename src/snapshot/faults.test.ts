// tier: all, because it damages and restores backups
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { gunzipSync, gzipSync } from 'node:zlib'
import { makeIdentity, readIdentities, readRecipient } from '../backup/age.ts'
import { readMigrations } from '../store/migrate.ts'
import { testCluster, testPooler } from '../../test/kit/database.ts'
import { fillEveryTable, readEveryTable } from '../../test/every-table.ts'
import { inside, isEmpty, kinds, smallDisk, snapshotStage, type Entry } from '../../test/snapshot-stage.ts'
import { backupDatabase } from './backup.ts'
import { sayFault } from './fault.ts'
import { pieceName, type SnapshotManifest, type SnapshotTotals } from './manifest.ts'
import { restoreDatabase } from './restore.ts'

const FILES = [{ name: 'auth-keys.json', content: Buffer.from('{"keys":["key"]}') }]
const told = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'nothing was wrong',
    (error: unknown) => (sayFault(error, 'Nothing.') as Error).message,
  )

/** Faults that are found without a database, and two that need one. */
const QUICK = new Set(['a newer format', 'a newer migration', 'another migration', 'another format', 'no manifest', 'no JSON', 'a row changed', 'files/../../escaped']) // prettier-ignore

for (const kind of kinds) {
  test(`a backup with a fault restores nothing, says which, and leaves nothing behind, ${kind}`, async (t) => {
    const stage = snapshotStage(t)
    const source = await stage.migrated(kind)
    await inside(source, (session) => fillEveryTable(session, 3))
    const file = await stage.backup(source, FILES)
    const whole = readFileSync(file)
    const folder = join(stage.folder, 'files')
    const target = await stage.empty(kind)
    let count = 0

    // The embedded database takes seconds to create and delete, so test one fault of each kind there.
    const isThorough = kind === 'postgres'
    async function refused(name: string, bytes: Buffer | string, pattern: RegExp): Promise<void> {
      const path = typeof bytes === 'string' ? bytes : join(stage.folder, `bad-${++count}`)
      if (typeof bytes !== 'string') writeFileSync(path, bytes)
      assert.match(await told(stage.restore(path, target, folder)), pattern, name)
      assert.ok(await isEmpty(target), `${name}: nothing is in the database`)
      assert.ok(!existsSync(folder) && !existsSync(`${folder}.partial`), `${name}: no files`)
    }

    const damaged = /altered, or a part of it is missing|not encrypted in the format|ends too early/
    for (const part of isThorough ? [0, 0.001, 0.5, 0.999] : [0, 0.001, 0.999])
      await refused(`cut at ${part}`, whole.subarray(0, Math.floor(whole.length * part)), damaged)
    if (isThorough) await refused('without its last byte', whole.subarray(0, -1), damaged)
    await refused('a byte more', Buffer.concat([whole, Buffer.from([0])]), damaged)
    const chunk = 65_536 + 16
    for (const at of [
      30,
      200,
      ...(isThorough ? [whole.length - (whole.length % chunk) + 5, Math.floor(whole.length / 2)] : []),
      whole.length - 1,
    ]) {
      const flipped = Buffer.from(whole)
      flipped[at]! ^= 1
      await refused(`byte ${at} flipped`, flipped, /altered|no given identity can open it|not encrypted/)
    }
    const other = makeIdentity()
    assert.equal(
      await told(restoreDatabase(target, { file, identities: readIdentities(other.identity), folder }, async () => {})),
      'The file was encrypted to other recipients: no given identity can open it. Nothing.',
    )
    await refused('no file', join(stage.folder, 'none'), /There is no such file or folder \(ENOENT\)\. Nothing\./)

    const forge = async (name: string, pattern: RegExp, change: (entries: Entry[]) => Entry[]): Promise<void> => {
      if (isThorough || QUICK.has(name)) await refused(name, await stage.forge(file, change), pattern)
    }
    const edit =
      <T>(name: string, change: (value: T) => void) =>
      (entries: Entry[]) =>
        entries.map((one) => {
          if (one.name !== name) return one
          const value = JSON.parse(one.content.toString('utf8')) as T
          change(value)
          return { name, content: Buffer.from(JSON.stringify(value)) }
        })
    const manifest = (change: (value: SnapshotManifest) => void) => edit('manifest.json', change)
    const totals = (change: (value: SnapshotTotals) => void) => edit('totals.json', change)
    const newest = (await readMigrations()).at(-1)!
    const piece = pieceName('blocks', 1)

    await forge('a newer format', /of a newer version \(0\.0\.0\)\. Restore it with that version/, manifest((value) => Object.assign(value, { version: 2 }))) // prettier-ignore
    await forge('a newer migration', /of a newer version/, manifest((value) => value.migrations.push({ ...newest, number: newest.number + 1 }))) // prettier-ignore
    await forge('another migration', /differs from the migration of this program/, manifest((value) => (value.migrations.at(-1)!.sha256 = '00'))) // prettier-ignore
    await forge(
      'another format',
      /not a server backup/,
      manifest((value) => Object.assign(value, { format: 'x' })),
    )
    await forge('no manifest', /not a server backup/, (entries) => entries.slice(1))
    await forge('no JSON', /not a server backup/, ([, ...rest]) => [{ name: 'manifest.json', content: Buffer.from('{') }, ...rest]) // prettier-ignore
    await forge(
      'a table less',
      /do not match its migrations/,
      manifest((value) => value.tables.pop()),
    )
    await forge('another column', /do not match its migrations/, manifest((value) => (value.tables[0]!.columns[0] = 'x; drop'))) // prettier-ignore
    await forge('no end', /has no end/, (entries) => entries.filter(({ name }) => name !== 'totals.json'))
    await forge('a piece less', /table blocks does not match its checksum/, (entries) => entries.filter(({ name }) => name !== piece)) // prettier-ignore
    await forge('a piece twice', /contains an unknown file/, (entries) => entries.flatMap((one) => (one.name === piece ? [one, one] : [one]))) // prettier-ignore
    await forge('behind its end', /contains an unknown file/, (entries) => [...entries, { name: pieceName('blocks', 2), content: gzipSync('') }]) // prettier-ignore
    await forge('another table', /contains an unknown file/, (entries) => entries.map((one) => (one.name === piece ? { ...one, name: pieceName('migrations', 1) } : one))) // prettier-ignore
    await forge('no gzip', /cannot be decompressed/, (entries) => entries.map((one) => (one.name === piece ? { ...one, content: Buffer.from('x') } : one))) // prettier-ignore
    await forge('a row changed', /table blocks does not match its checksum/, (entries) =>
      entries.map((one) => {
        if (one.name !== piece) return one
        const lines = gunzipSync(one.content).toString('utf8')
        return {
          ...one,
          content: gzipSync(lines.replace(/\\\\x[0-9a-f]/, (hex) => hex.slice(0, 3) + (hex[3] === '0' ? '1' : '0'))),
        }
      }),
    )
    await forge('a row less', /table blocks does not match its checksum/, totals((value) => value.tables.blocks!.rows++)) // prettier-ignore
    await forge('a table nobody knows', /table x does not match its checksum/, totals((value) => (value.tables.x = value.tables.blocks!))) // prettier-ignore
    await forge('a file less', /file auth-keys\.json does not match its checksum/, (entries) => entries.filter(({ name }) => !name.startsWith('files/'))) // prettier-ignore
    await forge('no row', /database rejects one of its rows/, (entries) => entries.map((one) => (one.name === piece ? { ...one, content: gzipSync('canary\n') } : one))) // prettier-ignore
    for (const name of ['files/../../escaped', '../escaped', 'files/auth-keys.json/x', 'files/authorized_keys'])
      await forge(name, /contains an unknown file/, ([first, ...rest]) => [first!, { name, content: Buffer.from('x') }, ...rest]) // prettier-ignore

    // A database without tables is restored.
    await stage.restore(file, target, folder)
    const there = await inside(target, readEveryTable)
    assert.equal(there.accounts!.length, 3)

    // Existing rows remain unchanged.
    assert.match(
      await told(stage.restore(file, target)),
      'dir' in target ? /embedded database already/ : /database is not empty \(/,
    )
    const another = await stage.empty(kind)
    assert.match(await told(stage.restore(file, another, folder)), /folder of --files already exists/)
    assert.ok(await isEmpty(another))
    assert.deepEqual(await inside(target, readEveryTable), there)
    assert.deepEqual(readdirSync(folder), ['auth-keys.json'])
  })

  test(`a disk that is full ends a backup and a restore with nothing there, and says so, ${kind}`, async (t) => {
    const stage = snapshotStage(t)
    const disk = smallDisk(t, 1_048_576)
    if (disk === null) return t.skip('this user cannot mount a small disk')
    const source = await stage.migrated(kind)
    await inside(
      source,
      ({ query }) =>
      query(`insert into blocks select 1, g, sha256(g::text::bytea), sha256('p'::bytea || g::text::bytea), now(), null from generate_series(1, 30000) g`), // prettier-ignore
    )
    const to = join(disk, 'backup')
    const given = { to, recipients: [readRecipient(stage.keys.recipient)], files: [], program: '0', now: Date.now }
    assert.equal(await told(backupDatabase(source, given)), 'The disk is full (ENOSPC). Nothing.')
    assert.deepEqual(readdirSync(disk), [])
    const file = await stage.backup(source)
    if (kind === 'embedded') {
      const target = { dir: join(disk, 'db') }
      assert.match(await told(stage.restore(file, target)), /disk is full/)
      assert.ok(await isEmpty(target))
    } else {
      const target = await stage.empty(kind)
      const content = Buffer.alloc(1_500_000, 1)
      const big = await stage.backup(source, [{ name: 'brand-logo', content }])
      mkdirSync(join(disk, 'in'))
      assert.equal(
        await told(stage.restore(big, target, join(disk, 'in', 'files'))),
        'The disk is full (ENOSPC). Nothing.',
      )
      assert.deepEqual(readdirSync(join(disk, 'in')), [])
      assert.ok(await isEmpty(target))
    }
  })
}

test('a backup of an older version is brought up to date', async (t) => {
  for (const kind of kinds) {
    const stage = snapshotStage(t)
    const source = await stage.migrated(kind)
    await inside(source, ({ query }) => query(`insert into networks (chain_id, name, genesis_hash) values (5, 'old', '\\x00')`)) // prettier-ignore
    const target = await stage.empty(kind)
    const text = `alter table networks add column later text;\nupdate networks set later = 'by ' || name;\n`
    const migrations = [...(await readMigrations()), { number: 9_999, name: '9999_later.sql', text, sha256: 'x' }]
    const file = await stage.backup(source)
    const identities = readIdentities(stage.keys.identity)
    const { migrated } = await restoreDatabase(target, { file, identities, folder: null, migrations }, async () => {})
    assert.deepEqual(migrated, ['9999_later.sql'])
    await inside(target, async ({ query }) => {
      // The migration also changed the rows of the backup.
      assert.deepEqual(await query('select name, later from networks'), [{ name: 'old', later: 'by old' }])
      assert.equal((await query('select from migrations')).length, migrations.length)
    })
  }
})

test(
  'a role that may not read everything makes no backup, and one that may make no tables restores none',
  // A pooler connects with the role of its own settings.
  { skip: testCluster === null || testPooler === 'transaction' },
  async (t) => {
    const stage = snapshotStage(t)
    const source = await stage.migrated('postgres')
    assert.ok('url' in source)
    const role = `reader_${randomBytes(6).toString('hex')}`
    await inside(source, async ({ query }) => {
      await query(`create role ${role} login`)
      await query(`grant usage on schema public to ${role}`)
      await query(`grant select on all tables in schema public to ${role}`)
      await query(`revoke select on attempts from ${role}`)
    })
    const as = new URL(source.url)
    as.username = role
    const narrow = { ...source, url: as.href }
    assert.match(
      await told(stage.backup(narrow)),
      /role of DATABASE_URL has no right to do this.*\(42501\)\. Nothing\./,
    )
    assert.deepEqual(readdirSync(stage.folder), [])
    // Grant the privilege as the guide says.
    await inside(source, ({ query }) => query(`grant pg_read_all_data to ${role}`))
    const file = await stage.backup(narrow)
    const target = await stage.empty('postgres')
    assert.ok('url' in target)
    const to = new URL(target.url)
    to.username = role
    assert.match(
      await told(stage.restore(file, { ...target, url: to.href })),
      /role of DATABASE_URL has no right to do this/,
    )
    assert.ok(await isEmpty(target))
    await inside(source, async ({ query }) => {
      await query(`drop owned by ${role}`)
      await query(`drop role ${role}`)
    })
  },
)
