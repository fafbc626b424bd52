// tier: all, because each planted mistake plays a whole chain again
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { IMPATIENT } from '../kit/until.ts'

/**
 * Mistakes that sums have to notice, each in a copy of the project. The suite tries one; SUMS_MUTANTS=all tries all of them, a quarter of a minute each.
 */
const MUTANTS: Record<string, { file: string; from: string; to: string }> = {
  'the fee is forgotten': {
    file: 'history/native.ts',
    from: '    add({ ...place, batchIndex: FEE_PLACE, from, to: NOBODY, value: fee })\n',
    to: '',
  },
  'what failed pays no fee': {
    file: 'history/native.ts',
    from: '    add({ ...place, batchIndex: FEE_PLACE,',
    to: '    if (!receipt.status) continue\n    add({ ...place, batchIndex: FEE_PLACE,',
  },
  'the value of what failed is counted': {
    file: 'history/native.ts',
    from: '    if (!receipt.status) continue\n',
    to: '',
  },
  'the fee of the first layer and of blobs is forgotten': {
    file: 'history/native.ts',
    from: ' + (receipt.extraFeeWei ?? 0n)',
    to: '',
  },
  'what a contract was created with is forgotten': {
    file: 'history/native.ts',
    from: 'const recipient = to ?? receipt.contractAddress',
    to: 'const recipient = to',
  },
  'what a deposit minted is forgotten': {
    file: 'history/native.ts',
    from: '    add({ ...place, batchIndex: MINT_PLACE, from: NOBODY, to: from, value: minted })\n',
    to: '',
  },
  'the reward is forgotten': { file: 'history/native.ts', from: '    if (tip > 0n) reward += gas * tip\n', to: '' },
  'a transfer to oneself is counted once': {
    file: 'history/native-rows.ts',
    from: '([[from, DIRECTION.SELF]] as const)',
    to: '([[from, DIRECTION.OUT]] as const)',
  },
  'what has no row is not in the sum': {
    file: 'history/native-rows.ts',
    from: 'value: wordOf(sum) }',
    to: 'value: kept.at(-1)!.value }',
  },
  'calls that failed are counted': {
    file: 'history/native-traces.ts',
    from: '    if (hasFailed(frame)) continue\n',
    to: '',
  },
  'the value of a delegated call is counted': {
    file: 'history/native-traces.ts',
    from: "new Set(['CALL', ",
    to: "new Set(['CALL', 'DELEGATECALL', ",
  },
  'a call of other code pays the other': {
    file: 'history/native-traces.ts',
    from: "new Set(['CALL', ",
    to: "new Set(['CALL', 'CALLCODE', ",
  },
  'what a contract leaves at its end is forgotten': {
    file: 'history/native-traces.ts',
    from: ", 'SELFDESTRUCT'])",
    to: '])',
  },
  'the first log is counted beside the value': {
    file: 'history/native-logs.ts',
    from: 'isOwn(moved[0], own) ? moved.slice(1) : moved',
    to: 'moved',
  },
  'withdrawals are in wei': { file: 'follower/native.ts', from: 'const GWEI = 1_000_000_000n', to: 'const GWEI = 1n' },
  'rows of a lost block are kept': {
    file: 'history/index-transfers.ts',
    from: "      .where('block_number', '>=', fromNumber)",
    to: "      .where('block_number', '>', fromNumber)",
  },
  'mints of tokens are ignored': {
    file: 'history/rows.ts',
    from: 'found.filter(({ from, to }) => accounts.has(from) || accounts.has(to))',
    to: 'found.filter(({ from, to }) => !/^0x0+$/.test(from) && (accounts.has(from) || accounts.has(to)))',
  },
  'burns of tokens are ignored': {
    file: 'history/rows.ts',
    from: 'found.filter(({ from, to }) => accounts.has(from) || accounts.has(to))',
    to: 'found.filter(({ from, to }) => !/^0x0+$/.test(to) && (accounts.has(from) || accounts.has(to)))',
  },
}

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const IN_THE_SUITE = ['rows of a lost block are kept']
const names = process.env.SUMS_MUTANTS === 'all' ? Object.keys(MUTANTS) : IN_THE_SUITE

for (const name of names) {
  test(`sums notice: ${name}`, async (t) => {
    const { file, from, to } = MUTANTS[name]!
    const copy = await mkdtemp(join(tmpdir(), 'chatelaine-mutant-'))
    t.after(() => rm(copy, { recursive: true }))
    for (const part of ['src', 'test', 'migrations', 'package.json'])
      await cp(join(ROOT, part), join(copy, part), { recursive: true })
    await symlink(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
    const path = join(copy, 'src', file)
    const text = await readFile(path, 'utf8')
    assert.equal(text.split(from).length, 2, `${file} has not exactly one place that reads: ${from}`)
    await writeFile(
      path,
      text.replace(from, () => to),
    )
    const run = (cwd: string) =>
      spawnSync(process.execPath, ['--test', '--test-name-pattern=entries sum up', 'test/sums/sums.test.ts'], {
        ...{ cwd, encoding: 'utf8' as const, timeout: 300_000 },
        env: { PATH: process.env.PATH, HOME: process.env.HOME, ...IMPATIENT },
      })
    const { status, stdout } = run(copy)
    assert.notEqual(status, 0, 'nobody noticed')
    // By its sums, and not because it does not run.
    assert.match(stdout, /at \d+: -?\d+ since/)
  })
}
