import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, suite, test } from 'node:test'
import { fileURLToPath } from 'node:url'

/** What an attacker would like this code to be: each in one place, and the test file that has to notice. */
const MUTANTS: [what: string, file: string, from: string, to: string, by: string, test?: string][] = [
  ['an allow outweighs a deny', 'policy/evaluate.ts', 'if (denied !== undefined) return', 'if (denied !== undefined && !applying.some(({ effect }) => effect === "allow")) return', 'policy/evaluate'], // prettier-ignore
  ['a limit lets one unit more pass', 'policy/evaluate.ts', 'used + charged > amount', 'used + charged > amount + 1n', 'policy/evaluate'], // prettier-ignore
  ['without an allow everything passes', 'policy/evaluate.ts', `return { allowed: false, rule: 'no-allow', reason: 'no rule allows it' }`, `return { allowed: true, rule: 'no-allow', ...limited }`, 'policy/evaluate'], // prettier-ignore
  ['unreadable calldata passes a limit of its token', 'policy/evaluate.ts', `? 'unreadable' : null`, '? null : null', 'policy/evaluate'], // prettier-ignore
  ['a function of a named token that nobody counts passes its limit', 'policy/evaluate.ts', `=== true ? null : 'unknown'`, `=== true ? null : null`, 'policy/evaluate'], // prettier-ignore
  ['a function that is listed at a token passes at every one', 'policy/evaluate.ts', `limit.functions?.has(selector) === true`, `limit.functions !== null`, 'policy/evaluate'], // prettier-ignore
  ['unreadable calldata is of no class', 'policy/evaluate.ts', 'isAll || effect.recipients !== null ? effect.classes : null', 'effect.classes', 'policy/evaluate'], // prettier-ignore
  ['unreadable calldata is of a class that is allowed', 'policy/evaluate.ts', 'isAll || effect.recipients !== null ? effect.classes : null', 'effect.recipients !== null ? effect.classes : isAll ? [] : null', 'policy/evaluate'], // prettier-ignore
  ['a missing argument escapes a restriction', 'policy/evaluate.ts', 'word === null || (word & spare) !== 0n ? !isAll', 'word === null ? false : (word & spare) !== 0n ? !isAll', 'policy/evaluate'], // prettier-ignore
  ['bits beyond its type take an argument out of a restriction', 'policy/evaluate.ts', ' || (word & spare) !== 0n ?', ' ?', 'policy/evaluate'], // prettier-ignore
  ['what has bits beyond its type is allowed', 'policy/evaluate.ts', '? !isAll : oneOf', '? true : oneOf', 'policy/evaluate'], // prettier-ignore
  ['what a contract cuts off is on the left of bytes too', 'policy/document.ts', '(UINT256 - 1n) >> BigInt(8 * Number(bytes))', 'UINT256 - (1n << BigInt(8 * Number(bytes)))', 'policy/evaluate'], // prettier-ignore
  ['what is allowed carries along what is not', 'policy/evaluate.ts', 'const isAll = rule.effect === \'allow\'', 'const isAll = false', 'policy/evaluate'], // prettier-ignore
  ['sixty buckets are a whole period', 'policy/window.ts', 'each >= bucket - BUCKETS', 'each > bucket - BUCKETS', 'policy/window'], // prettier-ignore
  ['a clock that is set back frees', 'policy/window.ts', 'const bucket = Math.max(current, window.newest)', 'const bucket = current', 'policy/window'], // prettier-ignore
  ['missing words are zeros', 'policy/signature.ts', 'data.length < start + WORD ? null', 'data.length < start ? null', 'policy/calldata'], // prettier-ignore
  ['bits above an address are cut off', 'policy/signature.ts', `return word >> 160n === 0n`, `return word >= 0n`, 'policy/calldata'], // prettier-ignore
  ['an approval without end is an approval', 'policy/calldata.ts', 'amount >= MIN_UNLIMITED || amount === UNLIMITED_96', 'amount === ALL_TOKENS', 'policy/calldata'], // prettier-ignore
  ['an operator sends tokens of somebody else only', 'policy/calldata.ts', `digits(account) === from.toString('hex')`, 'false', 'policy/calldata'], // prettier-ignore
  ['a manager of all tokens revokes', 'policy/calldata.ts', 'isOn === 0n ? revoke(manager!) : approveAll(call, manager!)', 'revoke(manager!)', 'policy/calldata'], // prettier-ignore
  ['one key counts as often as it signed', 'policy/jws.ts', 'signers: [...signers]', 'signers: signatures.map(() => "")', 'policy/accept'], // prettier-ignore
  ['an older policy is taken', 'policy/accept.ts', 'if (version < now) throw', 'if (version < 0) throw', 'policy/accept'], // prettier-ignore
  ['one key lifts a freeze', 'policy/accept.ts', 'isWithin(a.users, b.users) &&', '', 'policy/accept'],
  ['the second of two names counts', 'policy/json.ts', 'if (known!.has(name)) return', 'if (known!.size < 0) return', 'policy/document'], // prettier-ignore
  ['a charge is forgotten', 'sign.ts', 'meters.charge(at, charges)', 'void charges', 'limits', 'of a hundred calls'],
  [
    'a charge is not in the record',
    'sign.ts',
    'spent: spentToText(charges)',
    'spent: null',
    'limits',
    'verify recounts',
  ],
  ['a policy is not kept', 'policy-in-force.ts', 'put.run(offer.text)', '', 'limits', 'the file is looked at'],
]

suite('mutants of the policy', { concurrency: false }, () => {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  let folder: string
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'policy-mutants-'))
    for (const name of ['src', 'test', 'docs', 'package.json'])
      cpSync(join(root, name), join(folder, name), { recursive: true })
    symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  })
  after(() => rmSync(folder, { recursive: true }))

  for (const [what, file, from, to, by, only = '.'] of MUTANTS)
    test(`${what}: noticed by ${by}.test.ts`, () => {
      const path = join(folder, 'src/signer', file)
      const text = readFileSync(path, 'utf8')
      assert.equal(text.split(from).length, 2, `${from} is in ${file} once`)
      writeFileSync(
        path,
        text.replace(from, () => to),
      )
      try {
        const { NODE_TEST_CONTEXT: _, ...env } = process.env
        const run = spawnSync(process.execPath, ['--test', `--test-name-pattern=${only}`, join(folder, `src/signer/${by}.test.ts`)], { env, encoding: 'utf8' }) // prettier-ignore
        assert.equal(run.status, 1, 'no test failed')
        // A program that does not load is no mutant.
        assert.match(run.stdout, /AssertionError/, run.stdout.slice(-2_000))
      } finally {
        writeFileSync(path, text)
      }
    })
})
