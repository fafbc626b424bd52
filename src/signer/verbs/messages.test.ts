import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { encodeFunctionData, hashMessage, hashTypedData, parseAbi, recoverAddress } from 'viem'
import { LOGIN_HOST, MESSAGE_SPENDER, MESSAGE_TOKEN, PERMIT, permit, SAMPLES, type SampleFacts } from '../../../test/kit/messages.ts' // prettier-ignore
import { ALICE, ask, BOB, CHAIN_ID } from '../../../test/kit/signer.ts'
import { openGoverned, type GovernedSigner } from '../../../test/policy-world.ts'
import { readPolicy } from '../policy/document.ts'
import { replayLedger } from '../programs/replay.ts'
import { verifyStore } from '../programs/verify.ts'
import { Refusal } from '../refusal.ts'
import { DATABASE_FILE } from '../store.ts'
import { approvalDigest } from '../../signer-wire/approval.ts'
import type { MessageContent } from '../../signer-wire/wire-messages.ts'
import type { Hex } from '../../ids.ts'

/** For `assert.rejects`: a refusal of the signer in this process. */
const refusal = (code: string) => (error: unknown) => error instanceof Refusal && error.code === code

const AT = 1_790_000_000_000
const BY = { userId: ALICE, clientId: 'shop' }
const REST = { name: 'rest', effect: 'allow' }
const DAY = { periodDuration: 86_400 }

type Sample = keyof typeof SAMPLES

/** A signer with Alice's account, and what is done with its messages. */
async function world(t: TestContext, rules: unknown[] | null) {
  let at = AT
  const policy = rules === null ? null : JSON.stringify({ version: 1, rules })
  const signer = await openGoverned({ policy, now: () => at })
  t.after(() => signer.close())
  const address = await signer.account(ALICE)
  const facts: SampleFacts = { address, chainId: CHAIN_ID, at: AT }
  const askFor = (intentId: string, content: MessageContent) => ({ intentId, chainId: CHAIN_ID, from: address, ...content }) // prettier-ignore
  return {
    signer,
    address,
    facts,
    askFor,
    pass: (ms: number) => void (at += ms),
    rows: () => rowsOf(signer),
    problems: () => verifyStore(signer.folder).problems,
    /** the user's approval of a message under an intent */
    approve: async (intentId: string, content: MessageContent) => {
      const { hash } = await signer.checkMessage(askFor(intentId, content), BY)
      return signer.approve(ALICE, claimsOf(address, intentId, hash))
    },
  }
}

const claimsOf = (from: Hex, intent: string, message: Hex) => ({
  ...{ client_id: 'shop', chain_id: CHAIN_ID, intent },
  digest: approvalDigest({ chainId: CHAIN_ID, from, content: { message } }),
})

function rowsOf({ folder }: GovernedSigner): Record<string, unknown>[] {
  const db = new DatabaseSync(join(folder, DATABASE_FILE), { readOnly: true })
  try {
    return db.prepare(`SELECT * FROM ledger WHERE kind <> 'account' ORDER BY seq`).all()
  } finally {
    db.close()
  }
}

const hashOf = (content: MessageContent): Hex => {
  if ('typedData' in content) return hashTypedData(JSON.parse(content.typedData) as never)
  return hashMessage('text' in content ? content.text : { raw: content.hex })
}

/** The classes that an allowing rule has to list, and the built-in answer without such a rule. */
const CLASSES: Record<Sample, [classes: string[], builtIn: string]> = {
  login: [['LOGIN'], 'message-login'],
  grantingLogin: [['LOGIN', 'LOGIN_RESOURCES'], 'approval by message-approval'],
  text: [['TEXT'], 'approval by message-approval'],
  payment: [['TRANSFER'], 'message-payment'],
  cheque: [['TRANSFER', 'LONG_LIVED'], 'approval by message-approval'],
  allowance: [['APPROVE'], 'message-allowance'],
  longAllowance: [['APPROVE', 'LONG_LIVED'], 'approval by message-approval'],
  unlimited: [['APPROVE', 'APPROVE_UNLIMITED'], 'approval by message-approval'],
  order: [['APPROVE', 'ORDER'], 'approval by message-approval'],
  vote: [['VOTE'], 'approval by message-approval'],
  power: [['POWER'], 'refused by message-not-listed'],
  other: [['OTHER_MESSAGE'], 'approval by message-approval'],
  opaque: [['OPAQUE'], 'refused by message-not-listed'],
}

/** Signs every sample, without an approval and then with one, and returns both outcomes. */
async function answers({ signer, facts, askFor, approve }: Awaited<ReturnType<typeof world>>) {
  const found: Record<string, [without: string, withOne: string]> = {}
  for (const [name, sample] of Object.entries(SAMPLES)) {
    const content = sample(facts)
    const said = async (intentId: string, approval?: string) => {
      try {
        const { rule } = await signer.signMessage({ ...askFor(intentId, content), ...(approval === undefined ? {} : { approval }) }, BY) // prettier-ignore
        return rule
      } catch (error) {
        const { code, facts } = error as { code: string; facts: { rule: string } }
        assert.ok(code === 'approval_required' || code === 'policy_denied', String(error))
        return `${code === 'approval_required' ? 'approval' : 'refused'} by ${facts.rule}`
      }
    }
    const without = await said(`${name}_1`)
    const approval = await approve(`${name}_2`, content).catch(() => undefined)
    found[name] = [without, await said(`${name}_2`, approval)]
  }
  return found
}

const builtInOf = (rule: string | null): Record<string, [string, string]> =>
  Object.fromEntries(
    Object.entries(CLASSES).map(([name, [, builtIn]]) => {
      const isRefused = builtIn.startsWith('refused')
      const signed = rule ?? builtIn.replace('approval by ', '')
      return [name, [builtIn.startsWith('message') ? signed : builtIn, isRefused ? builtIn : signed]]
    }),
  )
const all = (answer: string): Record<string, [string, string]> =>
  Object.fromEntries(Object.keys(CLASSES).map((name) => [name, [answer, answer]]))

test('without a policy the class alone decides: what a token signs, what needs an approval, what needs a rule', async (t) => {
  const here = await world(t, null)
  assert.deepEqual(await answers(here), builtInOf(null))
  for (const { kind, raw, hash, effect, nonce, evidence } of here.rows() as Record<string, Buffer>[]) {
    assert.deepEqual([kind, nonce, Buffer.from(effect!).equals(Buffer.from(hash!))], ['message', null, true])
    assert.ok(Buffer.from(raw!).length > 66)
    const said = JSON.parse(String(evidence)) as Record<string, string>
    assert.deepEqual(Object.keys(said).slice(0, 7), ['token_sha256', 'jti', 'client_id', 'rule', 'class', 'domain', 'requires']) // prettier-ignore
    assert.equal(said.requires, said.rule === 'message-approval' ? said.rule : null)
    assert.equal(said.domain, said.class === 'login' ? LOGIN_HOST : null)
    assert.equal(said.approval_jti !== undefined, said.rule === 'message-approval')
  }
  assert.deepEqual(here.problems(), [])
})

test('a policy that allows everything names nothing: the built-in needs remain', async (t) => {
  assert.deepEqual(await answers(await world(t, [REST])), builtInOf('rest'))
})

test('a rule that lists the classes of a message lifts its needs, and signs no other message', async (t) => {
  for (const [name, [classes]] of Object.entries(CLASSES)) {
    const found = await answers(await world(t, [{ name: 'named', effect: 'allow', class: ['MESSAGE', ...classes] }]))
    const allowed = Object.keys(CLASSES).filter((one) =>
      CLASSES[one as Sample][0].every((each) => classes.includes(each)),
    )
    for (const [one, answer] of Object.entries(found))
      assert.deepEqual(answer, allowed.includes(one) ? ['named', 'named'] : all('refused by no-allow').login, `${name}: ${one}`) // prettier-ignore
  }
})

test('a rule that lists a type or a host allows these messages alone', async (t) => {
  const byType = await answers(await world(t, [{ name: 'permits', effect: 'allow', types: [PERMIT] }]))
  assert.deepEqual(byType, { ...all('refused by no-allow'), allowance: ['permits', 'permits'], longAllowance: ['permits', 'permits'], unlimited: ['permits', 'permits'] }) // prettier-ignore
  const byHost = await answers(await world(t, [{ name: 'shop', effect: 'allow', domains: [LOGIN_HOST] }]))
  assert.deepEqual(byHost, {
    ...all('refused by no-allow'),
    login: ['shop', 'shop'],
    grantingLogin: ['approval by message-approval', 'shop'],
  })
  const elsewhere = await answers(await world(t, [{ name: 'shop', effect: 'allow', domains: ['other.example'] }]))
  assert.deepEqual(elsewhere, all('refused by no-allow'))
})

test('a deny is never lifted, neither by an approval nor by a rule that names the message', async (t) => {
  const named = { name: 'named', effect: 'allow', class: ['MESSAGE', ...new Set(Object.values(CLASSES).flatMap(([one]) => one))] } // prettier-ignore
  assert.deepEqual(await answers(await world(t, [named])), all('named'))
  const none = await answers(await world(t, [named, { name: 'none', effect: 'deny', class: ['MESSAGE'] }]))
  assert.deepEqual(none, all('refused by none'))
  const to = await answers(await world(t, [named, { name: 'to', effect: 'deny', to: [MESSAGE_TOKEN] }]))
  const atToken = ['payment', 'cheque', 'allowance', 'longAllowance', 'unlimited', 'order', 'vote']
  for (const [one, [answer]] of Object.entries(to)) assert.equal(answer, atToken.includes(one) ? 'refused by to' : 'named', one) // prettier-ignore
  const spender = await answers(await world(t, [named, { name: 'spender', effect: 'deny', recipients: [MESSAGE_SPENDER] }])) // prettier-ignore
  const forSpender = ['payment', 'cheque', 'allowance', 'longAllowance', 'unlimited', 'order', 'power', 'other']
  for (const [one, [answer]] of Object.entries(spender)) assert.equal(answer, forSpender.includes(one) ? 'refused by spender' : 'named', one) // prettier-ignore
})

test('a require demands an approval of what it matches, also of what a token alone would sign', async (t) => {
  const found = await answers(await world(t, [REST, { name: 'ask', effect: 'require', tier: 'approval' }]))
  for (const [one, answer] of Object.entries(found)) {
    const isRefused = CLASSES[one as Sample][1].startsWith('refused')
    assert.deepEqual(answer, isRefused ? all('refused by message-not-listed').login : ['approval by ask', 'rest'], one)
  }
  const above = { name: 'ask', effect: 'require', tier: 'approval', tokens: [{ chainId: CHAIN_ID, tokenAddress: MESSAGE_TOKEN, perCall: '9' }] } // prettier-ignore
  const { signer, facts, askFor } = await world(t, [REST, above])
  assert.equal((await signer.signMessage(askFor('small', permit(facts, { value: '9' })), BY)).rule, 'rest')
  await assert.rejects(signer.signMessage(askFor('large', permit(facts, { value: '10' })), BY), refusal('approval_required')) // prettier-ignore
})

test('every digest is the one that viem computes, and every signature is of the account', async (t) => {
  const { signer, address, facts, askFor, approve } = await world(t, [{ name: 'all', effect: 'allow', class: ['MESSAGE', ...new Set(Object.values(CLASSES).flatMap(([one]) => one))] }]) // prettier-ignore
  for (const [name, sample] of Object.entries(SAMPLES)) {
    const content = sample(facts)
    const approval = await approve(name, content)
    const { hash, signature } = await signer.signMessage({ ...askFor(name, content), approval }, BY)
    assert.equal(hash, hashOf(content), name)
    assert.equal((await recoverAddress({ hash, signature })).toLowerCase(), address)
    // RFC 6979: the same digest has the same signature under any intent.
    const again = { ...askFor(`${name}_again`, content), approval: await approve(`${name}_again`, content) }
    assert.equal((await signer.signMessage(again, BY)).signature, signature)
  }
})

test('an intent has one message forever: the same one again is the recorded signature, another one conflicts', async (t) => {
  const { signer, address, facts, askFor, pass, rows, problems } = await world(t, [REST, { name: 'few', effect: 'limit', per: ['user'], count: { periodAmount: '2', ...DAY } }]) // prettier-ignore
  const request = askFor('intent', SAMPLES.login(facts))
  const first = await signer.signMessage(request, BY)
  signer.restart()
  // The sign-in is too old to be signed now, and was signed when it was not.
  pass(3_600_000)
  assert.deepEqual(await signer.signMessage(request, BY), { ...first, stored: true })
  assert.deepEqual(await signer.checkMessage(request, BY), {
    ...{ rule: 'rest', stored: true, hash: first.hash, class: 'login', requires: null },
  })
  await assert.rejects(signer.signMessage(askFor('intent', permit(facts)), BY), refusal('intent_conflict'))
  await assert.rejects(signer.signMessage({ ...request, chainId: 1 }, BY), refusal('intent_conflict'))
  await assert.rejects(signer.signMessage(request, { ...BY, userId: BOB }), refusal('forbidden_user'))
  await assert.rejects(signer.sign(ask(address, { intentId: 'intent' }), BY), refusal('intent_conflict'))
  await signer.sign(ask(address, { intentId: 'transaction' }), BY)
  await assert.rejects(signer.signMessage(askFor('transaction', permit(facts)), BY), refusal('intent_conflict'))
  assert.deepEqual(rows().map(({ kind }) => kind), ['message', 'send']) // prettier-ignore
  assert.deepEqual(problems(), [])
})

test('the shortest and the longest message are signed, and of parallel requests of one intent one record is made', async (t) => {
  const everything = { name: 'all', effect: 'allow', class: ['MESSAGE', 'TEXT', 'OPAQUE', 'OTHER_MESSAGE'] }
  const { signer, facts, askFor, rows, problems } = await world(t, [everything])
  const mail = (contents: string) => ({ typedData: SAMPLES.other(facts).typedData.replace('"Hello"', JSON.stringify(contents)) }) // prettier-ignore
  const contents: MessageContent[] = [
    { text: '' },
    { hex: '0x' },
    mail(''),
    { text: 'x'.repeat(32_768) },
    { text: '\u0001'.repeat(32_768) },
    { hex: `0x${'ff'.repeat(32_768)}` },
    mail('\n'.repeat(15_000)),
  ]
  for (const [index, content] of contents.entries()) {
    const asked = Array.from({ length: 20 }, () => signer.signMessage(askFor(`message_${index}`, content), BY))
    const signed = await Promise.all(asked)
    assert.equal(signed.filter(({ stored }) => !stored).length, 1)
    assert.equal(new Set(signed.map(({ signature }) => signature)).size, 1)
    assert.equal(signed[0]!.hash, hashOf(content))
  }
  assert.equal(rows().length, contents.length)
  assert.deepEqual([signer.deaths(), problems()], [0, []])
})

const TOKEN_LIMIT = [
  REST,
  { name: 'token', effect: 'limit', per: ['user'], tokens: [{ chainId: CHAIN_ID, tokenAddress: MESSAGE_TOKEN, periodAmount: '100', ...DAY }] }, // prettier-ignore
]

test('a permit and an approve use one meter, whichever comes first', async (t) => {
  const { signer, address, facts, askFor, pass, rows, problems } = await world(t, TOKEN_LIMIT)
  const approve = (amount: bigint) => encodeFunctionData({ abi: parseAbi(['function approve(address,uint256)']), args: [MESSAGE_SPENDER, amount] }) // prettier-ignore
  const send = (nonce: number, amount: bigint) =>
    signer.sign(ask(address, { nonce, intentId: `tx_${nonce}`, to: MESSAGE_TOKEN, value: '0', data: approve(amount) }), BY) // prettier-ignore
  const allow = (intentId: string, value: string) => signer.signMessage(askFor(intentId, permit(facts, { value })), BY)
  await send(0, 60n)
  await assert.rejects(allow('too-much', '41'), refusal('policy_denied'))
  const checked = await signer.checkMessage(askFor('rest', permit(facts, { value: '40' })), BY)
  assert.deepEqual(checked.limits!.map(({ rule, used, left }) => [rule, used, left]), [['token', '60', '40']]) // prettier-ignore
  await allow('rest', '40')
  await allow('rest', '40')
  await assert.rejects(send(1, 1n), refusal('policy_denied'))
  // A revocation is free, and the other classes move nothing.
  await allow('revoke', '0')
  await signer.signMessage(askFor('login', SAMPLES.login(facts)), BY)
  // What is unknown at the token moves an unknown amount.
  const mail = JSON.parse(SAMPLES.other(facts).typedData) as { domain: { verifyingContract: Hex } }
  mail.domain.verifyingContract = MESSAGE_TOKEN
  await assert.rejects(signer.signMessage(askFor('mail', { typedData: JSON.stringify(mail) }), BY), refusal('policy_denied')) // prettier-ignore
  assert.deepEqual(rows().map(({ spent }) => spent !== null), [true, true, false, false]) // prettier-ignore
  assert.deepEqual(problems(), [])
  // A policy that is tried over the log is asked about messages as well.
  const tried = (rules: unknown[]) =>
    [...replayLedger(signer.folder, readPolicy(JSON.stringify({ version: 1, rules })))].map(({ refusal }) => refusal?.rule) // prettier-ignore
  assert.deepEqual(tried(TOKEN_LIMIT), [undefined, undefined, undefined, undefined])
  assert.deepEqual(tried([...TOKEN_LIMIT, { name: 'no-login', effect: 'deny', domains: [LOGIN_HOST] }]), [undefined, undefined, undefined, 'no-login']) // prettier-ignore
  assert.deepEqual(tried([...TOKEN_LIMIT, { name: 'ask', effect: 'require', tier: 'approval', types: [PERMIT] }]), [undefined, 'ask', 'ask', undefined]) // prettier-ignore
  // A restore may have lost messages that no chain shows, so the period counts as used.
  const later = (days: number) => permit({ ...facts, at: AT + days * 86_400_000 }, { value: '100' })
  pass(2 * 86_400_000)
  assert.equal((await signer.checkMessage(askFor('after', later(2)), BY)).rule, 'rest')
  signer.acceptRestore()
  await assert.rejects(signer.signMessage(askFor('after', later(2)), BY), refusal('policy_denied'))
  pass(86_400_000)
  await signer.signMessage(askFor('after', later(3)), BY)
})

test('of a thousand parallel permits with room for ten, ten are signed', async (t) => {
  const { signer, facts, askFor, rows, problems } = await world(t, TOKEN_LIMIT)
  const asked = Array.from({ length: 1_000 }, (_, index) =>
    signer.signMessage(askFor(`permit_${index}`, permit(facts, { value: '10', nonce: String(index) })), BY),
  )
  const signed = (await Promise.allSettled(asked)).filter(({ status }) => status === 'fulfilled')
  assert.equal(signed.length, 10)
  assert.equal(rows().length, 10)
  assert.deepEqual(problems(), [])
})

test('killed before or after the commit, a message is signed once and charged once', async (t) => {
  for (const death of ['before-commit', 'after-commit'] as const) {
    const { signer, facts, askFor, rows, problems } = await world(t, TOKEN_LIMIT)
    const request = askFor('permit', permit(facts, { value: '60' }))
    signer.dieAfter(1, death)
    await assert.rejects(signer.signMessage(request, BY))
    assert.equal(signer.deaths(), 1)
    assert.equal(rows().length, death === 'before-commit' ? 0 : 1)
    const { stored } = await signer.signMessage(request, BY)
    assert.equal(stored, death === 'after-commit')
    assert.equal(rows().length, 1)
    assert.equal((await signer.checkMessage(askFor('next', permit(facts, { value: '40' })), BY)).limits![0]!.left, '40')
    assert.deepEqual(problems(), [])
  }
})
