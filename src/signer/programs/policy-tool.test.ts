// tier: all, because it starts a process for each use of a tool
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import {
  copyFileSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { fileURLToPath } from 'node:url'
import { ALICE, ask, CHAIN_ID, makePlace, refusal, startSigner, world } from '../../../test/kit/signer.ts'
import { until } from '../../../test/kit/until.ts'
import { readPolicy } from '../policy/document.ts'
import { describePolicy, findDoubts } from '../policy/words.ts'
import { readPolicyTrust, writePolicyTrust } from '../rules/policy-trust.ts'

const DEFAULT = fileURLToPath(new URL('../../../docs/examples/policy.json', import.meta.url))
const REST = { name: 'rest', effect: 'allow' }

function run(
  program: 'policy-tool.ts' | 'policy-keys.ts' | 'trust-key.ts',
  args: string[],
  env: Record<string, string> = {},
) {
  // prettier-ignore
  const file = join(import.meta.dirname, program)
  const { stdout, stderr, status } = spawnSync(process.execPath, [file, ...args], { env, encoding: 'utf8' })
  return { out: stdout, err: stderr, code: status }
}

function folder(t: TestContext): (name: string, text?: string) => string {
  const path = mkdtempSync(join(tmpdir(), 'chatelaine-policies-'))
  t.after(() => rmSync(path, { recursive: true, force: true }))
  return (name, text) => {
    if (text !== undefined) writeFileSync(join(path, name), text)
    return join(path, name)
  }
}

test('the policy that is shipped for production is read without a doubt, and says what the guide says', () => {
  const policy = readPolicy(readFileSync(DEFAULT, 'utf8'))
  assert.deepEqual(findDoubts(policy, new Set([1])), [])
  const guide = readFileSync(new URL('../../../docs/operate/policy.md', import.meta.url), 'utf8')
  for (const line of describePolicy(policy)) assert.ok(guide.includes(line), line)
})

test('a policy is shown in words: amounts of named tokens in whole units, freezes first', () => {
  const token = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'
  const policy = readPolicy(
    JSON.stringify({
      version: 2,
      freeze: { users: [ALICE], everything: true },
      tokens: { [`11155111:${token}`]: { symbol: 'USDC', decimals: 6 } },
      rules: [
        { name: 'pay', effect: 'limit', per: ['user'], tokens: [{ chainId: 11_155_111, tokenAddress: token, perCall: '20500000', periodAmount: '50000000', periodDuration: 604_800 }] }, // prettier-ignore
        { name: 'wrap', effect: 'limit', tokens: [{ chainId: 11_155_111, tokenAddress: token, perCall: '1', functions: ['deposit()', '0x2e1a7d4d'] }] }, // prettier-ignore
        { name: 'much', effect: 'require', tier: 'approval', tokens: [{ chainId: 11_155_111, tokenAddress: token, perCall: '1000000' }] }, // prettier-ignore
        { name: 'big', effect: 'require', tier: 'approval', native: { perCall: '5' }, chains: [1] },
        { ...REST, functions: ['transfer(address,uint256)'], to: [token], args: { 1: ['7'] } },
      ],
    }),
  )
  assert.deepEqual(describePolicy(policy), [
    `frozen: everything, user ${ALICE}`,
    `pay: limit transactions and messages to 20.5 USDC, ${token} on chain 11155111 at a time, 50 USDC, ${token} on chain 11155111 in any 7 days, and to known functions of it, for each user`,
    `wrap: limit transactions and messages to 0.000001 USDC, ${token} on chain 11155111 at a time, and to known functions of it and 0xd0e30db0 or 0x2e1a7d4d (amount not limited), together`,
    `much: require the user’s approval for transactions and messages of more than 1 USDC, ${token} on chain 11155111, or of unknown functions of it`,
    'big: require the user’s approval for transactions and messages on chain 1 of more than 5 wei of native currency',
    `rest: allow transactions and messages that call ${token} with selector 0xa9059cbb with argument 1 one of 7`,
  ])
})

test('what is hardly meant is said of a policy', () => {
  const doubts = (rules: unknown[], more: Record<string, unknown> = {}) =>
    findDoubts(readPolicy(JSON.stringify({ version: 1, rules, ...more })), new Set([1])).join('\n')
  const day = { periodAmount: '5', periodDuration: 86_400 }
  const token = '0x1c7D4B196Cb0C7B01d743Fbc6116a902379C7238'
  const limit = (changes: Record<string, unknown>) => [REST, { name: 'l', effect: 'limit', per: ['user', 'chainId'], ...changes }] // prettier-ignore
  const tokens = [{ chainId: 1, tokenAddress: token, ...day }]
  for (const [said, expected] of [
    [doubts([REST]), /^$/],
    [doubts(limit({ native: day })), /^$/],
    [doubts([{ name: 'no', effect: 'deny' }]), /no rule allows anything.*\nno: denies everything/],
    [doubts([{ ...REST, chains: [1, 2] }]), /rest: SIGNER_CHAINS does not list 2/],
    [doubts([REST], { freeze: { everything: true } }), /everything is frozen/],
    [doubts([{ ...REST, users: [ALICE] }], { freeze: { users: [ALICE] } }), /can never match: all of its users/],
    [doubts([{ ...REST, chains: [1] }], { freeze: { chains: [1] } }), /can never match: all of its chains/],
    [doubts([{ ...REST, clients: ['a'] }], { freeze: { clients: ['a'] } }), /can never match: all of its applications/],
    [doubts([{ ...REST, class: ['NATIVE'], functions: ['f()'] }]), /can never match: NATIVE alone/],
    [doubts([REST, { ...REST, name: 'l', class: ['LOGIN'] }]), /l: LOGIN can never match: class does not list MESSAGE/],
    [doubts([REST, { ...REST, name: 'r', class: ['MESSAGE', 'LOGIN_RESOURCES'] }]), /r: LOGIN_RESOURCES can never match/], // prettier-ignore
    [doubts([REST, { ...REST, name: 'e', class: ['MESSAGE', 'LONG_LIVED'] }]), /e: LONG_LIVED can never match: class does not list TRANSFER or APPROVE/], // prettier-ignore
    [
      doubts([REST, { ...REST, name: 'd', domains: ['shop.example'], class: ['MESSAGE', 'TEXT'] }]),
      /d: domains can never match/,
    ],
    [
      doubts([REST, { ...REST, name: 't', domains: ['shop.example'], types: ['A(bool b)'] }]),
      /t: can never match: a sign-in has no type/,
    ],
    [doubts(limit({ native: { ...day, perCall: '6' } })), /l: native\.perCall can never be reached/],
    [doubts(limit({ native: day, per: ['user'] })), /l: native adds up different currencies/],
    [doubts(limit({ tokens, chains: [2] })), /can never match: chains does not list 1/],
    [
      doubts(limit({ tokens, class: ['CALL'] })),
      /l: tokens 1:0x1c7D\S+ counts almost nothing: class lists neither TRANSFER nor/,
    ],
    [
      doubts(limit({ tokens, class: ['TRANSFER'] })),
      /l: tokens 1:0x1c7D\S+ allows unknown functions: class does not list CALL$/,
    ],
    [doubts(limit({ tokens, class: ['TRANSFER', 'APPROVE', 'CALL'] })), /^$/],
    [doubts(limit({ tokens, functions: ['transfer(address,uint256)'] })), /^$/],
    [doubts(limit({ tokens: [{ ...tokens[0], functions: ['deposit()'] }] })), /^$/],
    [
      doubts(limit({ tokens: [{ ...tokens[0], functions: ['transfer(address,uint256)'] }] })),
      /functions lists 0xa9059cbb, but its amount is still limited/,
    ],
    [doubts(limit({ tokens, to: ['0x7e487E487e487E487E487e487e487E487e487e48'] })), /can match only by Permit2/],
    [
      doubts(limit({ native: day, class: ['CALL'] })),
      /native omits transactions without calldata: class does not list NATIVE/,
    ],
  ] as const)
    assert.match(said, expected)
})

test('keys are made once, sign once each, and a file that they signed tells who', (t) => {
  const at = folder(t)
  const draft = at('draft.json', JSON.stringify({ version: 1, rules: [REST] }))
  assert.match(run('policy-tool.ts', ['keygen', at('a')]).out, /^fingerprint [\w-]{43}\n/)
  assert.equal(statSync(at('a')).mode & 0o777, 0o600)
  assert.match(run('policy-tool.ts', ['keygen', at('a')]).err, /already exists/)
  assert.ok(!readFileSync(at('a.pub'), 'utf8').includes('"d"'))
  assert.equal(run('policy-tool.ts', ['sign', draft, '--key', at('a'), '--out', at('signed')]).code, 0)
  assert.match(run('policy-tool.ts', ['sign', at('signed'), '--key', at('a')]).err, /this key has signed it already/)
  assert.match(run('policy-tool.ts', ['sign', draft, '--key', at('a.pub')]).err, /is not a private key/)
  assert.match(run('policy-tool.ts', ['sign', at('bad', '{"version":1}'), '--key', at('a')]).err, /^rules: expected a list/) // prettier-ignore
  assert.match(run('policy-tool.ts', ['check', at('a')]).err, /unknown field "\w+"/)
  assert.ok(!run('policy-tool.ts', ['check', at('a')]).err.includes((JSON.parse(readFileSync(at('a'), 'utf8')) as { d: string }).d)) // prettier-ignore
  const checked = run('policy-tool.ts', ['check', at('signed')])
  assert.match(
    checked.out,
    /^version 1, hash [\w-]{43}\nrest: allow transactions and messages\nsignatures were not checked/,
  )
  assert.match(run('policy-tool.ts', ['check', draft]).out, /\nnot signed\n$/)
  assert.match(run('policy-tool.ts', ['check', at('nothing')]).err, /cannot be read \(ENOENT\)/)
})

test('in production a policy is in force by two of three keys, and only a freeze by one', async (t) => {
  const at = folder(t)
  const place = await makePlace()
  t.after(place.clear)
  writeFileSync(place.env.SIGNER_KEK_FILE!, randomBytes(32), { mode: 0o600 })
  const env: Record<string, string> = {
    ...{ ...place.env, SIGNER_POLICY_FILE: at('policy') },
    ...{ SIGNER_REVOCATIONS_SECONDS: '60', SIGNER_CHAINS: String(CHAIN_ID) },
  }
  const jwk = JSON.parse(readFileSync(env.SIGNER_JWKS_FILE!, 'utf8')) as { keys: object[] }
  assert.equal(jwk.keys.length, 1)
  const [fingerprint] = /[\w-]{43}/.exec(run('trust-key.ts', [], env).out)!
  assert.equal(run('trust-key.ts', ['--accept', fingerprint], env).code, 0)
  const keys = ['a', 'b', 'c'].map((name) => /[\w-]{43}/.exec(run('policy-tool.ts', ['keygen', at(name)]).out)![0])
  const offers = ['a', 'b', 'c'].flatMap((name) => ['--offer', at(`${name}.pub`)])
  const accepts = keys.flatMap((key) => ['--accept', key])
  assert.match(run('policy-keys.ts', [...offers, ...accepts], env).err, /--threshold is missing/)
  for (const threshold of ['4', '0', '1.5', 'two'])
    assert.match(run('policy-keys.ts', [...offers, ...accepts, '--threshold', threshold], env).err, /from 1 to 3/)
  assert.match(run('policy-keys.ts', ['--accept', keys[0]!, '--threshold', '1'], env).err, /No offered key/)
  const kept = run('policy-keys.ts', [...offers, ...accepts, '--threshold', '2'], env)
  assert.match(kept.out, /^(trusted {6}[\w-]{43}\n){3}A policy needs 2 of 3 signatures\.\n$/)
  assert.equal(statSync(join(env.SIGNER_DIR!, 'policy-keys.json')).mode & 0o777, 0o600)
  assert.match(run('policy-keys.ts', accepts.map((word) => word.replace('--accept', '--remove')), env).err, /one policy key must remain/) // prettier-ignore

  const put = (document: object, ...by: string[]) => {
    let file = at('document', JSON.stringify(document))
    for (const name of by) {
      const { err, code } = run('policy-tool.ts', ['sign', file, '--key', at(name), '--out', at(`by-${name}`)])
      assert.equal(code, 0, err)
      file = at(`by-${name}`)
    }
    copyFileSync(file, at('policy.new'))
    renameSync(at('policy.new'), at('policy'))
  }
  const start = () => startSigner({ env }, { flags: [] })
  put({ version: 1, rules: [REST] })
  await assert.rejects(start(), /it is not signed/)
  put({ version: 1, rules: [REST] }, 'a')
  await assert.rejects(start(), /1 of 3 trusted keys signed it, and 2 have to/)
  put({ version: 1, rules: [REST] }, 'a', 'c')
  const signer = await start()
  t.after(() => signer.end('SIGKILL'))
  assert.match(run('policy-tool.ts', ['check', at('policy')], env).out, /2 of 2 required signatures/)
  const version = async () => (await signer.health()).policy!.version
  const state = async () => (await signer.health()).policy!.state
  assert.equal(await version(), 1)

  put({ version: 2, rules: [{ ...REST, name: 'thief' }] }, 'b')
  await until('it is refused', async () => (await state()) === 'refused')
  put({ version: 2, rules: [REST], freeze: { users: [ALICE] } }, 'b')
  await until('the freeze is in force', async () => (await version()) === 2)
})

test('a draft is replayed over the ledger: what it would have refused, with its meters as they would have been', async (t) => {
  const { place, signer, address, accessToken } = await world(t)
  for (let nonce = 0; nonce < 6; nonce++) await signer.sign(ask(address, { nonce, accessToken, value: '4' }))
  const raise = { kind: 'replace', maxFeePerGas: '3000', maxPriorityFeePerGas: '300' } as const
  await signer.sign(ask(address, { accessToken, value: '4', ...raise }))
  await signer.sign(ask(address, { nonce: 1, value: '4', ...raise }))
  const at = folder(t)
  const draft = at('draft', JSON.stringify({ version: 1, rules: [REST, { name: 'day', effect: 'limit', native: { periodAmount: '17', periodDuration: 86_400 }, fees: { perCall: '50000000', periodAmount: '100000000000', periodDuration: 86_400 } }] })) // prettier-ignore
  const before = readFileSync(join(place.env.SIGNER_DIR!, 'signer.sqlite'))
  const { out, code } = run('policy-tool.ts', ['replay', draft], place.env)
  assert.equal(code, 0)
  const lines = out.trimEnd().split('\n')
  assert.equal(lines.length, 4, out)
  assert.match(lines[0]!, /^record 6, .*DISCORD-1 by shop on chain 31337: day: native\.periodAmount is 17 .* used 16, needed 4/) // prettier-ignore
  assert.match(lines[2]!, /^record 8, .*day: fees\.perCall is 50000000, needed 63000000/)
  assert.equal(lines[3], 'The policy would have rejected 3 of 7 signatures with a token.')
  assert.deepEqual(readFileSync(join(place.env.SIGNER_DIR!, 'signer.sqlite')), before)
  assert.ok(existsSync(draft))
  await assert.rejects(signer.sign(ask(address, { nonce: 6 })), refusal('invalid_token'))
})

test('a draft that is replayed refuses what it freezes; raises and cancels cost what they add, a first cancel counts', async (t) => {
  const { place, signer, address, accessToken } = await world(t)
  const priced = (price: number) => ({ maxFeePerGas: String(price), maxPriorityFeePerGas: String(price / 10) })
  const nothing = { kind: 'cancel', to: address, value: '0' } as const
  await signer.sign(ask(address, { accessToken, ...priced(1_000) }))
  await signer.sign(ask(address, { accessToken, kind: 'replace', ...priced(2_000) }))
  await signer.sign(ask(address, { accessToken, kind: 'replace', ...priced(3_000) }))
  await signer.sign(ask(address, { accessToken, nonce: 1, ...nothing, ...priced(1_000) }))
  // One that was first without a token is no first of its nonce.
  await signer.sign(ask(address, { nonce: 2, ...nothing, ...priced(1_000) }))
  await signer.sign(ask(address, { accessToken, nonce: 2, ...nothing, ...priced(2_000) }))
  const at = folder(t)
  const replayed = (changes: object) => {
    const draft = at('draft', JSON.stringify({ version: 1, rules: [REST], ...changes }))
    return run('policy-tool.ts', ['replay', draft], place.env).out.trimEnd().split('\n')
  }
  const limit = (amounts: object) => replayed({ rules: [REST, { name: 'day', effect: 'limit', ...amounts }] })
  const day = (units: number) => ({ periodAmount: String(21_000 * units), periodDuration: 86_400 })
  const none = 'The policy would have rejected 0 of 5 signatures with a token.'
  assert.deepEqual(limit({ fees: day(6_000) }), [none])
  assert.match(
    limit({ fees: day(5_999) })[0]!,
    /^record 7, .*day: fees\.periodAmount .* used 84000000, needed 42000000/,
  )
  assert.deepEqual(limit({ count: { periodAmount: '2', periodDuration: 86_400 } }), [none])
  assert.match(limit({ count: { periodAmount: '1', periodDuration: 86_400 } })[0]!, /^record 5, .* used 1, needed 1/)
  for (const [freeze, what] of [
    [{ users: [ALICE] }, 'the user'],
    [{ chains: [CHAIN_ID] }, 'the chain'],
    [{ clients: ['shop'] }, 'the application'],
    [{ everything: true }, 'everything'],
  ] as const) {
    const lines = replayed({ freeze })
    assert.equal(lines.length, 6)
    assert.ok(lines[0]!.endsWith(`: frozen: it freezes ${what}`), lines[0])
    assert.equal(lines[5], 'The policy would have rejected 5 of 5 signatures with a token.')
  }
  assert.deepEqual(replayed({ freeze: { users: ['DISCORD-9'], chains: [1], clients: ['game'] } }), [none])
})

test('a file of trusted keys that asks for no signature, or for more than there are keys, is unreadable', (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-policy-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const { x } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' }) as { x: string }
  const key = { kty: 'OKP', crv: 'Ed25519', x } as const
  writePolicyTrust(folder, { threshold: 1, keys: [key] })
  assert.deepEqual(readPolicyTrust(folder), { threshold: 1, keys: [key] })
  for (const threshold of [0, -1, 2, 0.5]) {
    writePolicyTrust(folder, { threshold, keys: [key] })
    assert.throws(() => readPolicyTrust(folder), /The policy keys are unreadable/, String(threshold))
  }
})
