/**
 * Mutation testing: programs with one small mistake each, and whether the tests notice.
 *   npm run mutate -- --folder src/history --sample 200 --seed 7
 *   --folder    one of folders.ts, several by repeating it; without it all of them
 *   --sample    so many mutants of each folder, decided by --seed; without it every one
 *   --file      only files of the folder whose name holds this
 *   --only      mutants by their id, after a comma each
 *   --tests     only the test files of the folder that this pattern finds
 *   --minutes   ends after so many; what was tried by then is a smaller sample
 *   --jobs      1 or 2 at a time
 *   --out       where the results are written, tmp/mutation by default
 *   --list      names the mutants and runs nothing
 *   --write     writes docs/mutation.md from the results of all folders that lie there
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { getPriority, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { copyTree, ROOT } from './copy.ts'
import { openDatabases } from './database.ts'
import { folderNames, folderOf, type Folder } from './folders.ts'
import { readKnown, staleOf } from './known.ts'
import type { Mutant } from './mutants.ts'
import { learningOrder } from './order.ts'
import { resultOf, sumUp, writePage, type Result } from './report.ts'
import { allMutants, reachOfAll, sampleOf, seeTogether, tryMutant, type Fate } from './run.ts'

const { values } = parseArgs({
  options: {
    folder: { type: 'string', multiple: true, default: folderNames },
    sample: { type: 'string' },
    seed: { type: 'string', default: '1' },
    file: { type: 'string', default: '' },
    only: { type: 'string' },
    minutes: { type: 'string', default: 'Infinity' },
    tests: { type: 'string', default: '' },
    jobs: { type: 'string', default: '1' },
    out: { type: 'string', default: join(ROOT, 'tmp', 'mutation') },
    list: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
  },
})

async function main(): Promise<void> {
  const folders = values.folder.map(folderOf)
  if (values.list) return list(folders)
  if (values.write) return writePage(values.out)
  // The tests of mutants let others go first.
  setPriority(Math.max(10, getPriority()))
  mkdirSync(values.out, { recursive: true })
  for (const folder of folders) await mutateFolder(folder)
}

function chosen(folder: Folder): { all: Mutant[]; some: Mutant[] } {
  const all = allMutants(folder)
  const only = values.only?.split(',')
  const named = all.filter(({ id, file }) => file.includes(values.file) && (only?.includes(id) ?? true))
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
  const jobs = Math.min(2, Math.max(1, Number(values.jobs)))
  const workers = await Promise.all(Array.from({ length: jobs }, openWorker))
  const waiting = [...some]
  const fates: Fate[] = []
  const order = learningOrder(join(values.out, `${folder.name.replace('/', '-')}-order.json`))
  const endMs = performance.now() + Number(values.minutes) * 60_000
  try {
    const tests = folder.tests.filter((test) => new RegExp(values.tests).test(test))
    const reached = await reachOfAll(workers[0]!.bench, workers[0]!.copy, { ...folder, tests }, say)
    await seeTogether(workers[0]!.bench, folder, reached)
    await Promise.all(
      workers.map(async ({ bench, copy }) => {
        while (waiting.length > 0 && performance.now() < endMs) {
          const mutant = waiting.shift()!
          const fate = await tryMutant(bench, copy, mutant, reached, { order, together: folder.together })
          fates.push(fate)
          say(`${fates.length}/${some.length} ${lineOf(fate)}`)
        }
      }),
    )
  } finally {
    for (const { close } of workers) await close()
  }
  const result: Result = resultOf(folder, {
    all,
    fates,
    seed: Number(values.seed),
    isSample: values.sample !== undefined,
  })
  if (values.only === undefined && values.file + values.tests === '')
    writeFileSync(join(values.out, `${folder.name.replace('/', '-')}.json`), `${JSON.stringify(result, null, 1)}\n`)
  console.log(sumUp(result))
}

const lineOf = ({ mutant: { id, file, line, change }, fate, by, ms }: Fate): string =>
  `${fate} ${id} ${file}:${line} ${change} (${by ?? '-'}, ${Math.round(ms)} ms)`

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
