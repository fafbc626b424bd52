// tier: all, because it kills processes and nodes under load
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { testCluster } from '../kit/database.ts'
import { openHome, type Home } from './history-home.ts'
import { runHistory } from './history-run.ts'

/**
 * Caught by lives of a follower with these seeds and lies, or, where chance meets it too seldom, by one test of a file: on PostgreSQL,
 * where the embedded database with its one connection would only wait for itself.
 */
type Mutant = { file: string; edits: [from: string, to: string][] } & (
  | { seeds: 'strict' | 'not strict' | 'any'; lies?: string[] }
  | { caughtBy: [file: string, test: string]; isOnPostgres?: boolean }
)

/** Programs with a mistake that somebody could make. The proof has to fail for each of them. */
const MUTANTS: Record<string, Mutant> = {
  'no parent check': {
    file: 'follower/advance.ts',
    edits: [['if (header.parentHash !== parent && !isFirstOfAll) break', '']],
    seeds: 'any',
  },
  'the history’s cursor outside the transaction': {
    file: 'follower/trail.ts',
    edits: [['    await moveHistory(db, chain.chainId, held', '    await moveHistory(app.db, chain.chainId, held']],
    ...{ caughtBy: ['src/follower/trail.test.ts', 'holds up nobody while it fails'], isOnPostgres: true },
  },
  'the history’s cursor moves without its rows': {
    file: 'follower/trail.ts',
    edits: [
      ['    await listener.onBlocks(db, app, chain, blocks)\n', ''],
      ['  return { ...held, number, hash }', '  await listener.onBlocks(app.db, app, chain, blocks)\n  return { ...held, number, hash }'],
    ], // prettier-ignore
    ...{ caughtBy: ['src/follower/trail.test.ts', 'holds up nobody while it fails'], isOnPostgres: true },
  },
  'a reorganisation leaves the history where it was': {
    file: 'follower/apply.ts',
    edits: [['  if (history !== null && history.number > ancestor.number) await setHistoryBack(db, chain.chainId, ancestor)\n', '']], // prettier-ignore
    // It finds out by itself, and makes again what is not final.
    caughtBy: [
      'src/follower/trail.test.ts',
      'is taken back as far as it was, by a reorganisation above it as by one below it',
    ],
  },
  'a reorganisation takes back the blocks and not the history': {
    file: 'follower/apply.ts',
    edits: [
      [
        '  for (const listener of listeners) await listener.onRetract',
        '  for (const listener of listeners) if (listener.isTrailing !== true) await listener.onRetract',
      ],
    ],
    seeds: 'any',
  },
  'the history stores what is followed no more': {
    file: 'follower/trail.ts',
    edits: [['    await assertFollowed(db, chain.chainId, { number, hash })\n', '']],
    caughtBy: [
      'src/follower/trail.test.ts',
      'stores no block of a branch that was reorganised while it was read again',
    ],
  },
  'no fencing of the history': {
    file: 'follower/history-cursor.ts',
    edits: [
      [
        "    .where('epoch', '=', held.epoch)\n    .where('lease_owner', '=', held.owner)\n    .where('block_hash', '=', fromHex(held.hash))\n",
        '',
      ],
    ],
    caughtBy: ['src/follower/history-cursor.test.ts', 'is moved by who holds it, from where it is'],
  },
  'an empty answer is believed': {
    file: 'follower/check-block.ts',
    edits: [['  if (!Array.isArray(receiptsAnswer))', '  if (Array.isArray(receiptsAnswer) && receiptsAnswer.length === 0) return { ...headerOf(block), receipts: [] }\n  if (!Array.isArray(receiptsAnswer))']], // prettier-ignore
    seeds: 'not strict',
    lies: ['empty'],
  },
  'a partial answer is believed': {
    file: 'follower/check-block.ts',
    edits: [
      [
        "  if (verification !== 'count')\n    checkBloom(\n      block,\n      receipts.flatMap(({ logs }) => logs),\n    )\n",
        '',
      ],
      ["(verification === 'count' ? one > before : one === before + 1)", 'one > before'],
    ],
    seeds: 'not strict',
    lies: ['log left out', 'log left out, the rest counted anew'],
  },
  'roots are not checked': {
    file: 'follower/fetch.ts',
    edits: [["  if (verification === 'hash') {\n", '  if (Date.now() === 0) {\n']],
    seeds: 'strict',
    lies: ['other amount', 'logs exchanged'],
  },
  'receipts are believed that no transaction bears out': {
    file: 'follower/prove.ts',
    edits: [
      [
        'const receipts = checkReceipts(sent, read, { answers: answers.receipts, isSenderChecked })',
        'const { receipts } = read',
      ],
    ],
    // Only what moves nothing tells by its row who sent it: chance seldom meets one.
    caughtBy: [
      'src/follower/prove.test.ts',
      'in strict mode no field of a header, a transaction or a receipt can be changed',
    ],
  },
  'transactions are not checked': {
    file: 'follower/strict.ts',
    edits: [["  if (computed.transactionsRoot !== lower(header.transactionsRoot))\n    throw new InvalidResponse('the transactions have another root than the block names')\n", '']], // prettier-ignore
    caughtBy: [
      'src/follower/prove.test.ts',
      'a block with two transactions in each other’s place is not proven, where all of it was a lie and where only the whole block is',
    ],
  },
  'no fencing': {
    file: 'follower/cursor.ts',
    edits: [
      [
        "    .where('epoch', '=', held.epoch)\n    .where('lease_owner', '=', held.owner)\n    .where('block_hash', '=', fromHex(held.hash))\n    .where('halted', 'is', null)\n",
        '',
      ],
    ],
    caughtBy: [
      'src/follower/follow.test.ts',
      'an epoch that a database gives out again, because it lost the first time, is held by the second owner only',
    ],
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
    edits: [['if (await isOurs(db, chain, place)) await upsert', 'await upsert']],
    caughtBy: [
      'src/tokens/refresh.test.ts',
      'the reader itself stores nothing that was said, only that the token is to be asked',
    ],
  },
}

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const MAX_SEEDS = 12
/**
 * With `HISTORY_MUTANTS=all` every mistake is tried. Without it, those that one test of a file catches are not, because that
 * test runs in the suite, and of the others every second.
 */
const EVERY = process.env.HISTORY_MUTANTS === 'all'
const caughtByLives = Object.keys(MUTANTS).filter((name) => !('caughtBy' in MUTANTS[name]!))
const TRIED = EVERY ? Object.keys(MUTANTS) : caughtByLives.filter((_, index) => index % 2 === 0)

test('every mistake fits the program', async () => {
  for (const mutant of Object.values(MUTANTS)) await edited(mutant)
})

suite(
  'the proof of the history catches',
  { skip: testCluster === null && 'needs PostgreSQL: set TEST_DATABASE_URL' },
  () => {
    let home: Home
    before(async () => {
      home = await openHome()
    })
    after(() => home?.close())

    for (const name of TRIED) {
      const mutant = MUTANTS[name]!
      test(name, async (t) => {
        const { copy, remove } = await make(mutant)
        t.after(remove)
        if ('caughtBy' in mutant) {
          const { caughtBy, isOnPostgres = false } = mutant
          assert.equal(passes(ROOT, caughtBy, isOnPostgres), true)
          assert.equal(passes(copy, caughtBy, isOnPostgres), false)
          return
        }
        const program = join(copy, 'test/chaos/history-program.ts')
        const seeds = Array.from({ length: MAX_SEEDS }, (_, index) =>
          mutant.seeds === 'strict' ? index * 2 + 1 : mutant.seeds === 'not strict' ? index * 2 + 2 : index + 1,
        )
        const { lies = null } = mutant
        for (const seed of seeds) {
          const { problem } = await runHistory(seed, home, { program, lies })
          if (problem === null) continue
          t.diagnostic(`seed ${seed}: ${problem.slice(0, 160)}`)
          // The same life with the real program: it was the mistake, not the machine.
          assert.equal((await runHistory(seed, home, { lies })).problem, null)
          return
        }
        assert.fail(`${MAX_SEEDS} seeds did not notice`)
      })
    }
  },
)

/** @throws where there is no such test: then neither "passed" nor "failed" says anything */
function passes(cwd: string, [file, name]: [string, string], isOnPostgres: boolean): boolean {
  const { PATH, TEST_DATABASE_URL, TEST_DATABASE_POOLER } = process.env
  const env = isOnPostgres ? { PATH, TEST_DATABASE_URL, TEST_DATABASE_POOLER } : { PATH }
  const pattern = name.replaceAll(/[^\w ]/g, '.')
  const { status, stdout } = spawnSync(
    process.execPath,
    ['--test', '--test-reporter=tap', `--test-name-pattern=${pattern}`, file],
    { cwd, env, encoding: 'utf8' },
  )
  assert.ok(stdout.includes(`ok 1 - ${name}`), `${file} has no test "${name}", or more than one`)
  return status === 0
}

/** A copy of the project with one mistake, in a folder of its own. */
/** Returns the text of a file with a mistake in it. */
async function edited({ file, edits }: Mutant): Promise<string> {
  let text = await readFile(join(ROOT, 'src', file), 'utf8')
  for (const [from, to] of edits) {
    assert.equal(text.split(from).length, 2, `${file} has not exactly one place that reads: ${from}`)
    text = text.replace(from, () => to)
  }
  return text
}

async function make(mutant: Mutant): Promise<{ copy: string; remove(): Promise<void> }> {
  const copy = await mkdtemp(join(tmpdir(), 'chatelaine-mutant-'))
  for (const part of ['src', 'test', 'migrations', 'package.json']) {
    await cp(join(ROOT, part), join(copy, part), { recursive: true })
  }
  await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  await writeFile(join(copy, 'src', mutant.file), await edited(mutant))
  return { copy, remove: () => rm(copy, { recursive: true }) }
}
