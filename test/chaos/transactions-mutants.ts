import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Check } from './transactions-evidence.ts'
import { recordMutants } from './transactions-mutants-records.ts'
import { sendingMutants } from './transactions-mutants-sending.ts'
import { PROJECT } from './transactions-world.ts'
import type { ScenarioName } from './transactions-scenarios.ts'

/**
 * A mistake that somebody made, or could make, in this engine; each has to be caught, or the proof proves nothing: by
 * the named check of the judge after a scenario, or by a test of the suite where only lies of a node would show it.
 */
export type Mutant = {
  name: string
  /** file below src/, a text that stands in it exactly once, and what stands there instead */
  patches: [file: string, from: string, to: string][]
} & ({ scenario: ScenarioName; caughtBy: Check } | { file: string; test: string })

export const mutants: Mutant[] = [...sendingMutants, ...recordMutants]

/** The mutants and what has to catch each, as a table of `docs/evidence/proof-mutants.md`. */
export const mutantTable = (): string =>
  [
    '| mistake | scenario or test | caught by |',
    '|---|---|---|',
    ...mutants.map((mutant) =>
      'test' in mutant
        ? `| ${mutant.name} | \`${mutant.file}\` | “${mutant.test}” |`
        : `| ${mutant.name} | \`${mutant.scenario}\` | \`${mutant.caughtBy}\` |`,
    ),
  ].join('\n')

/** A copy of the program with the mistake in it. @throws as `applied` */
export async function plant(
  mutant: Pick<Mutant, 'name' | 'patches'>,
): Promise<{ home: string; remove(): Promise<void> }> {
  const files = await applied(mutant)
  const home = await mkdtemp(join(tmpdir(), 'chatelaine-mutant-'))
  for (const part of ['src', 'test']) await cp(join(PROJECT, part), join(home, part), { recursive: true })
  await cp(join(PROJECT, 'package.json'), join(home, 'package.json'))
  for (const beside of ['node_modules', 'migrations', 'contracts'])
    await symlink(join(PROJECT, beside), join(home, beside))
  for (const [file, text] of files) await writeFile(join(home, 'src', file), text)
  return { home, remove: () => rm(home, { recursive: true, force: true }) }
}

/**
 * The files that a mistake changes, with it in them.
 * @throws Error when a patch does not apply exactly once: the code has moved on, and the mutant has to follow
 */
export async function applied({ name, patches }: Pick<Mutant, 'name' | 'patches'>): Promise<Map<string, string>> {
  const files = new Map<string, string>()
  for (const [file, from, to] of patches) {
    const text = files.get(file) ?? (await readFile(join(PROJECT, 'src', file), 'utf8'))
    if (text.split(from).length !== 2) throw new Error(`the mutant "${name}" does not fit ${file} any more`)
    files.set(
      file,
      text.replace(from, () => to),
    )
  }
  return files
}
