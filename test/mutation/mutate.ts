/**
 * Mutation testing: programs with one small mistake each, and whether the tests notice.
 *   npm run mutate -- --folder src/history --sample 200 --seed 7
 *   --folder    one of folders.ts, several by repeating it, all of them by default; "suite" is the sample in
 *               sample.json with every test file of the project
 *   --sample    so many mutants of each folder, decided by --seed; without it every one
 *   --file      only files of the folder whose name holds this
 *   --only      mutants by their id, after a comma each
 *   --tests     only the test files of the folder that this pattern finds
 *   --tests-from  only the test files that this file lists, one path per line
 *   --cap       seconds that the test files tried for one mutant may take; the others are left out
 *   --minutes   ends after so many; what was tried by then is a smaller sample
 *   --resume    continues a stopped run: skips the mutants that have an outcome in --out
 *   --jobs      1 or 2 at a time
 *   --out       where the results are written, tmp/mutation by default
 *   --list      names the mutants and runs nothing
 *   --draw      writes a new sample.json of that many mutants, decided by --seed
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { getPriority, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { copyTree, ROOT } from './copy.ts'
import { openDatabases } from './database.ts'
import { folderNames, folderOf, type Folder } from './folders.ts'
import { readKnown, staleOf } from './known.ts'
import type { Mutant } from './mutants.ts'
import { learningOrder } from './order.ts'
import { lineOf, outcomeOf, readOutcomes, sumUp } from './report.ts'
import { allMutants, reachOfAll, sampleOf, tryMutant } from './run.ts'
import { compare, draw } from './suite.ts'

const { values } = parseArgs({
  options: {
    folder: { type: 'string', multiple: true, default: folderNames },
    sample: { type: 'string' },
    seed: { type: 'string', default: '1' },
    file: { type: 'string', default: '' },
    only: { type: 'string' },
    minutes: { type: 'string', default: 'Infinity' },
    tests: { type: 'string', default: '' },
    'tests-from': { type: 'string' },
    cap: { type: 'string', default: 'Infinity' },
    resume: { type: 'boolean', default: false },
    draw: { type: 'string' },
    jobs: { type: 'string', default: '1' },
    out: { type: 'string', default: join(ROOT, 'tmp', 'mutation') },
    list: { type: 'boolean', default: false },
  },
})

async function main(): Promise<void> {
  if (values.draw !== undefined) return draw(Number(values.draw), Number(values.seed))
  const folders = values.folder.map(folderOf)
  if (values.list) return list(folders)
  // The tests of mutants let others go first.
  setPriority(Math.max(10, getPriority()))
  mkdirSync(values.out, { recursive: true })
  for (const folder of folders) await mutateFolder(folder)
}

function chosen(folder: Folder): { all: Mutant[]; some: Mutant[] } {
  const all = allMutants(folder)
  const only = values.only?.split(',') ?? folder.only
  const meant = only?.flatMap((id) => all.filter((mutant) => mutant.id === id)) ?? all
  const named = meant.filter(({ file }) => file.includes(values.file))
  return {
    all,
    some: values.sample === undefined ? named : sampleOf(named, Number(values.sample), Number(values.seed)),
  }
}

function list(folders: Folder[]): void {
  for (const { id, file, line, kind, change } of folders.flatMap((folder) => chosen(folder).some))
    console.log(`${id} ${file}:${line} ${kind}: ${change}`)
}

async function mutateFolder(folder: Folder): Promise<void> {
  const { all, some } = chosen(folder)
  const stale = staleOf(
    readKnown().filter(({ file }) => folder.files.includes(file)),
    all,
  )
  if (stale.length > 0) {
    say(`known.json explains mutants that are no more:\n${stale.join('\n')}`)
    process.exitCode = 1
  }
  const missing = (folder.only ?? []).filter((one) => !all.some(({ id }) => id === one))
  if (missing.length > 0) say(`mutants of the sample that no longer exist: ${missing.join(' ')}`)
  const jobs = Math.min(2, Math.max(1, Number(values.jobs)))
  const workers = await Promise.all(Array.from({ length: jobs }, openWorker))
  const place = join(values.out, folder.name.replace('/', '-'))
  const outcomes = (values.resume ? readOutcomes(`${place}.jsonl`) : []).filter(({ id }) =>
    some.some((mutant) => mutant.id === id),
  )
  const waiting = some.filter(({ id }) => !outcomes.some((outcome) => outcome.id === id))
  const order = learningOrder(`${place}-order.json`)
  const endMs = performance.now() + Number(values.minutes) * 60_000
  try {
    const reached = await reachOfAll(workers[0]!.bench, workers[0]!.copy, { ...folder, tests: testsOf(folder) }, say)
    await Promise.all(
      workers.map(async ({ bench, copy }) => {
        while (waiting.length > 0 && performance.now() < endMs) {
          const mutant = waiting.shift()!
          const fate = await tryMutant(bench, copy, mutant, reached, { order, capMs: Number(values.cap) * 1_000 })
          const outcome = outcomeOf(fate)
          outcomes.push(outcome)
          // A run that is stopped has lost only the mutant at hand.
          writeFileSync(`${place}.jsonl`, outcomes.map((one) => `${JSON.stringify(one)}\n`).join(''))
          say(`${outcomes.length}/${some.length} ${lineOf(outcome)}`)
        }
      }),
    )
  } finally {
    for (const { close } of workers) await close()
  }
  say(folder.name === 'suite' ? compare(outcomes) : sumUp(folder.name, all.length, outcomes))
}

function testsOf(folder: Folder): string[] {
  const tests = folder.tests.filter((test) => new RegExp(values.tests).test(test))
  if (values['tests-from'] === undefined) return tests
  const named = readFileSync(values['tests-from'], 'utf8').split('\n')
  return named.filter((test) => tests.includes(test))
}

const say = (line: string): void => console.log(line)

/** A copy, a database cluster and a scratch folder for one mutant at a time. */
async function openWorker() {
  const copy = copyTree()
  const databases = await openDatabases()
  const tmp = mkdtempSync(join(tmpdir(), 'mut-'))
  const remove = () => {
    copy.remove()
    rmSync(tmp, { recursive: true, force: true })
  }
  process.once('exit', remove)
  return {
    copy,
    bench: {
      folder: copy.folder,
      tmp,
      env: { ...databases.env, NODE_COMPILE_CACHE: join(tmpdir(), 'chatelaine-compiled') },
      tidy: databases.tidy,
    },
    close: async () => {
      await databases.stop()
      remove()
    },
  }
}

// What was opened ends with the process, also when somebody stops it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
await main()
