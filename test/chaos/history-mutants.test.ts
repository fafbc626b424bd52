import assert from 'node:assert/strict'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { testCluster, testDatabase, type TestDatabase } from '../database.ts'
import { runHistory } from './history-run.ts'

type Mutant = { file: string; edits: [from: string, to: string][]; seeds: 'strict' | 'not strict' | 'any' }

/** Programs with a mistake that somebody could make. The proof has to fail for each of them. */
const MUTANTS: Record<string, Mutant> = {
  'no parent check': {
    file: 'follower/advance.ts',
    edits: [['if (header.parentHash !== parent && !isFirstOfAll) break', '']],
    seeds: 'any',
  },
  'the cursor outside the transaction': {
    file: 'follower/apply.ts',
    edits: [['    await moveCursor(db, chain.chainId, held, next)\n    for (const listener of listeners) {', '    await moveCursor(app.db, chain.chainId, held, next)\n    for (const listener of listeners) {']], // prettier-ignore
    seeds: 'any',
  },
  'an empty answer is believed': {
    file: 'follower/fetch.ts',
    edits: [['  if (!Array.isArray(receiptsAnswer))', '  if (Array.isArray(receiptsAnswer) && receiptsAnswer.length === 0) return { ...headerOf(block), transactions: [], receipts: [] }\n  if (!Array.isArray(receiptsAnswer))']], // prettier-ignore
    seeds: 'not strict',
  },
  'a partial answer is believed': {
    file: 'follower/fetch.ts',
    edits: [
      ["  if (strictness !== 'lax') checkBloom(block, receipts)\n", ''],
      ["const isNext = strictness === 'lax' ? logIndex > lastLog : logIndex === lastLog + 1", 'const isNext = logIndex > lastLog'], // prettier-ignore
    ],
    seeds: 'not strict',
  },
  'roots are not checked': {
    file: 'follower/fetch.ts',
    edits: [["  if (source.strictness === 'on') checkRoots(blockAnswer, receipts as unknown[])\n", '']],
    seeds: 'strict',
  },
  'no fencing': {
    file: 'follower/cursor.ts',
    edits: [["    .where('epoch', '=', held.epoch)\n    .where('block_hash', '=', fromHex(held.hash))\n", '']],
    seeds: 'any',
  },
  'the common ancestor by number': {
    file: 'follower/ancestor.ts',
    edits: [['canonical[index]?.hash === block.hash', 'canonical[index]?.number === block.number']],
    seeds: 'any',
  },
  'transfers are not taken back': {
    file: 'history/index-transfers.ts',
    edits: [["      .where('block_number', '>=', fromNumber)", "      .where('block_number', '>', fromNumber)"]],
    seeds: 'any',
  },
  'tokens are not taken back': {
    file: 'history/index-transfers.ts',
    edits: [['    await reviewTokens(db, chain, fromNumber)\n', '']],
    seeds: 'any',
  },
  'late answers of tokens are stored': {
    file: 'tokens/refresh.ts',
    edits: [["sql<string>`tokens.address::text || ' ' || tokens.updated_at::text`, 'in', ['', ...versions]", 'sql<boolean>`true`']], // prettier-ignore
    seeds: 'any',
  },
}

const MOST_SEEDS = 12
const BOUND_MS = 8_000

suite(
  'the proof of the history catches',
  { skip: testCluster === null && 'needs PostgreSQL: set TEST_DATABASE_URL' },
  () => {
    let database: TestDatabase
    before(async () => {
      database = await testDatabase()
    })
    after(() => database?.close())

    for (const [name, mutant] of Object.entries(MUTANTS)) {
      test(name, async (t) => {
        const target = { db: database.db, url: database.url! }
        const { program, remove } = await make(mutant)
        t.after(remove)
        const seeds = Array.from({ length: MOST_SEEDS }, (_, index) =>
          mutant.seeds === 'strict' ? index * 2 + 1 : mutant.seeds === 'not strict' ? index * 2 + 2 : index + 1,
        )
        for (const seed of seeds) {
          const { problem } = await runHistory(seed, target, { program, boundMs: BOUND_MS })
          if (problem === null) continue
          t.diagnostic(`seed ${seed}: ${problem.slice(0, 160)}`)
          // The same life with the real program: it was the mistake, not the machine.
          assert.equal((await runHistory(seed, target, { boundMs: BOUND_MS })).problem, null)
          return
        }
        assert.fail(`${MOST_SEEDS} seeds did not notice`)
      })
    }
  },
)

/** A copy of the sources with one mistake, in a folder of its own. */
async function make({ file, edits }: Mutant): Promise<{ program: string; remove(): Promise<void> }> {
  const root = fileURLToPath(new URL('../../', import.meta.url))
  const copy = await mkdtemp(join(tmpdir(), 'chatelaine-mutant-'))
  await cp(join(root, 'src'), join(copy, 'src'), { recursive: true, filter: (path) => !path.endsWith('.test.ts') })
  await mkdir(join(copy, 'test', 'chaos'), { recursive: true })
  await cp(join(root, 'package.json'), join(copy, 'package.json'))
  await cp(join(root, 'test/chaos/history-program.ts'), join(copy, 'test/chaos/history-program.ts'))
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
  const path = join(copy, 'src', file)
  let text = await readFile(path, 'utf8')
  for (const [from, to] of edits) {
    assert.equal(text.split(from).length, 2, `${file} has not exactly one place that reads: ${from}`)
    text = text.replace(from, () => to)
  }
  await writeFile(path, text)
  const program = join(copy, 'test/chaos/history-program.ts')
  return { program, remove: () => rm(copy, { recursive: true }) }
}
