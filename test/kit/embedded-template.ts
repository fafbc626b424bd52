import { createHash, randomUUID } from 'node:crypto'
import {
  appendFileSync,
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { openEmbedded } from '../../src/store/db.ts'
import { migrate, readMigrations } from '../../src/store/migrate.ts'

/** A migrated embedded database that was shut down in order, as one file: its folders, and its files one after the other. */
export type Template = { folders: string[]; files: { name: string; size: number; at: number; kept: number }[]; body: Buffer } // prettier-ignore

/** How its name begins. */
export const TEMPLATE = 'chatelaine-embedded-'

/**
 * The database that the embedded ones of tests are copied from. It is made once for what it is made of (the migrations, what
 * applies them, this file, the version of PGlite) and kept beside the other temporary files of this user; one that is not
 * whole, or of something else, is made anew.
 */
export async function embeddedTemplate(): Promise<Template> {
  const made = await madeOf()
  return keepTemplate(
    { file: join(tmpdir(), `${TEMPLATE}${process.getuid?.() ?? ''}-${made.slice(0, 16)}`), made },
    migrateTemplate,
  )
}

/** @param made  what it is made of, in one word */
export async function keepTemplate(
  { file, made }: { file: string; made: string },
  make: () => Promise<Template>,
): Promise<Template> {
  const known = readTemplate(file, made)
  if (known !== null) return known
  const template = await make()
  const { body, ...names } = template
  const rest = Buffer.concat([Buffer.from(`${JSON.stringify(names)}\n`), body])
  // Test files run side by side: written apart, then moved into place whole.
  const part = `${file}.${randomUUID()}`
  writeFileSync(part, Buffer.concat([Buffer.from(digestOf(made, rest), 'latin1'), rest]), { mode: 0o600 })
  renameSync(part, file)
  return template
}

/** Writes the database into a folder that is not there yet: a sixth of what a copy of the folder costs. */
export function unpackTemplate({ folders, files, body }: Template, dir: string): void {
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  for (const name of folders) mkdirSync(join(dir, name))
  for (const { name, size, at, kept } of files) {
    const fd = openSync(join(dir, name), 'wx', 0o600)
    if (kept > 0) writeSync(fd, body, at, kept)
    if (kept < size) ftruncateSync(fd, size)
    closeSync(fd)
  }
}

/** The same as a tar archive, from which PGlite opens a database in memory. */
export function tarOf({ folders, files, body }: Template): Blob {
  const entries = [
    ...folders.map((name) => ({ name: `${name}/`, type: '5', size: 0, content: Buffer.alloc(0) })),
    ...files.map(({ name, size, at, kept }) => ({ name, type: '0', size, content: body.subarray(at, at + kept) })),
  ]
  const padded = (size: number) => Math.ceil(size / BLOCK) * BLOCK
  const tar = Buffer.alloc(entries.reduce((sum, { size }) => sum + BLOCK + padded(size), 2 * BLOCK))
  let at = 0
  for (const { name, type, size, content } of entries) {
    const head = tar.subarray(at, at + BLOCK)
    head.write(name, 0)
    head.write('0000600\0', 100)
    head.write(`${size.toString(8).padStart(11, '0')}\0`, 124)
    head.write(`        ${type}`, 148)
    head.write('ustar\x0000', 257)
    const sum = head.reduce((total, byte) => total + byte, 0)
    head.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148)
    content.copy(tar, at + BLOCK)
    at += BLOCK + padded(size)
  }
  return new Blob([tar])
}

const BLOCK = 512

async function madeOf(): Promise<string> {
  const digest = createHash('sha256')
  const pglite = new URL('../package.json', import.meta.resolve('@electric-sql/pglite'))
  digest
    .update(readFileSync(pglite))
    .update(readFileSync(import.meta.filename))
    .update(await digestOfMigrations())
  return digest.digest('hex')
}

/** Of the migrations and of what applies them, in hexadecimal: a database that was made by other ones is not the same. */
export async function digestOfMigrations(): Promise<string> {
  const digest = createHash('sha256')
  for (const { sha256 } of await readMigrations()) digest.update(sha256)
  for (const name of ['migrate', 'db'])
    digest.update(readFileSync(new URL(`../../src/store/${name}.ts`, import.meta.url)))
  return digest.digest('hex')
}

/** @returns null where there is none, or what is there is not what was written for the same parts */
function readTemplate(file: string, made: string): Template | null {
  let bytes: Buffer
  try {
    bytes = readFileSync(file)
  } catch {
    return null
  }
  const rest = bytes.subarray(DIGEST)
  if (bytes.toString('latin1', 0, DIGEST) !== digestOf(made, rest)) return null
  const end = rest.indexOf('\n')
  const { folders, files } = JSON.parse(rest.toString('utf8', 0, end)) as Pick<Template, 'folders' | 'files'>
  return { folders, files, body: rest.subarray(end + 1) }
}

const DIGEST = 64
const digestOf = (made: string, rest: Buffer): string => createHash('sha256').update(made).update(rest).digest('hex')

async function migrateTemplate(): Promise<Template> {
  const folder = await mkdtemp(join(tmpdir(), 'chatelaine-migrate-'))
  try {
    const db = await openEmbedded({ dir: folder })
    await migrate(db)
    await db.destroy()
    const pglite = await PGlite.create({ dataDir: folder })
    // Nobody connects to these in PGlite, and they are two thirds of the files; what was logged so far nobody reads again.
    await pglite.exec('update pg_database set datistemplate = false')
    await pglite.exec('drop database template0')
    await pglite.exec('drop database template1')
    await pglite.exec('set wal_recycle = off; select pg_switch_wal(); checkpoint')
    await pglite.close()
    // Of 128 MB each opening lays out every page, for tables of a few rows.
    appendFileSync(join(folder, 'postgresql.conf'), 'shared_buffers = 16MB\n')
    return packFolder(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

export function packFolder(folder: string): Template {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).toSorted()
  const isFolder = new Map(names.map((name) => [name, statSync(join(folder, name)).isDirectory()]))
  const contents: Buffer[] = []
  let at = 0
  const files = names
    .filter((name) => !isFolder.get(name))
    .map((name) => {
      const content = readFileSync(join(folder, name))
      // A log of 16 MB has a few lines: what is zero up to the end is not kept.
      let kept = content.length
      while (kept > 0 && content[kept - 1] === 0) kept--
      contents.push(content.subarray(0, kept))
      at += kept
      return { name, size: content.length, at: at - kept, kept }
    })
  return { folders: names.filter((name) => isFolder.get(name)), files, body: Buffer.concat(contents) }
}
