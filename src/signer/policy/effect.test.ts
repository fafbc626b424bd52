import assert from 'node:assert/strict'
import { test } from 'node:test'
import { login, MESSAGE_SPENDER, MESSAGE_TOKEN, SAMPLES, type SampleFacts } from '../../../test/kit/messages.ts'
import { classify } from '../../messages/classify.ts'
import { readMessage } from '../../messages/message.ts'
import { readPolicy } from './document.ts'
import { effectsOfMessage } from './effect.ts'
import { evaluateCalls } from './evaluate-calls.ts'
import type { Hex } from '../../ids.ts'

const from = Buffer.alloc(20, 0xaa)
const facts: SampleFacts = { address: `0x${from.toString('hex')}`, chainId: 1, at: 1_790_000_000_000 }
const [token, spender] = [MESSAGE_TOKEN, MESSAGE_SPENDER].map((address) => address.slice(2).toLowerCase()) as [string, string] // prettier-ignore

const effectsOf = (content: { text: string } | { hex: Hex } | { typedData: string }) =>
  effectsOfMessage(
    classify(readMessage(content), { address: from, chainId: 1, at: facts.at, domains: ['shop.example'] }),
    { chainId: 1, from },
  )

test('a message has the effect of its calls: classes, tokens, recipients, and both contracts', () => {
  const seen = Object.fromEntries(
    Object.entries(SAMPLES).map(([name, sample]) => [
      name,
      effectsOf(sample(facts)).map((one) => [one.classes.join(' '), one.token?.amount ?? null, one.recipients, one.to]),
    ]),
  )
  assert.deepEqual(seen, {
    login: [['LOGIN MESSAGE', null, [], []]],
    grantingLogin: [['LOGIN LOGIN_RESOURCES MESSAGE', null, [], []]],
    text: [['TEXT MESSAGE', null, [], []]],
    payment: [['TRANSFER MESSAGE', 7n, [spender], [token]]],
    cheque: [['TRANSFER LONG_LIVED MESSAGE', 7n, [spender], [token]]],
    allowance: [['APPROVE MESSAGE', 10n, [spender], [token]]],
    longAllowance: [['APPROVE LONG_LIVED MESSAGE', 10n, [spender], [token]]],
    unlimited: [['APPROVE APPROVE_UNLIMITED MESSAGE', 2n ** 256n - 1n, [spender], [token]]],
    order: [['APPROVE ORDER MESSAGE', 9n, [spender], [token, spender]]],
    vote: [['VOTE MESSAGE', null, [token], [token]]],
    power: [['POWER MESSAGE', null, [spender], [spender]]],
    other: [['OTHER_MESSAGE MESSAGE', null, [spender], [spender]]],
    opaque: [['OPAQUE MESSAGE', null, [], []]],
  })
})

test('a rule by hosts judges both hosts of a sign-in, in any case of letters', () => {
  const text = login(facts).text
  const judge = (changed: string, rules: unknown[]) => {
    const own = { address: from, chainId: 1, at: facts.at, domains: ['shop.example', 'admin.example'] }
    const effects = effectsOfMessage(classify(readMessage({ text: changed }), own), { chainId: 1, from })
    const questions = effects.map((effect) => ({ effect, feeWei: 0n, userId: 'DISCORD-1', clientId: 'shop' }))
    const answer = evaluateCalls(readPolicy(JSON.stringify({ version: 1, rules })), questions, () => ({ used: 0n, resetsAt: null })) // prettier-ignore
    return answer.allowed ? answer.rules[0] : answer.rule
  }
  const [deny, shop, rest] = [
    { name: 'deny', effect: 'deny', domains: ['admin.example'] },
    { name: 'shop', effect: 'allow', domains: ['shop.example'] },
    { name: 'rest', effect: 'allow' },
  ]
  assert.equal(judge(text, [deny, shop]), 'shop')
  const forAdmin = [
    text.replaceAll('shop.example', 'admin.example'),
    text.replace('shop.example wants', 'ADMIN.example wants'),
    text.replace('//shop.example', '//admin.example'),
    text.replace('//shop.example', '//Admin.Example'),
  ]
  for (const changed of forAdmin) {
    assert.equal(judge(changed, [deny, rest]), 'deny', changed)
    assert.equal(judge(changed, [shop]), 'no-allow', changed)
  }
})

test('every call of a message is judged: one that no rule names leaves the need, one above a limit is refused with all', () => {
  const permitted = (...amounts: string[]) => ({
    typedData: JSON.stringify({
      types: {
        PermitBatchTransferFrom: [
          { name: 'permitted', type: 'TokenPermissions[]' },
          { name: 'spender', type: 'address' },
          { name: 'nonce', type: 'uint256' },
          { name: 'deadline', type: 'uint256' },
        ],
        TokenPermissions: [
          { name: 'token', type: 'address' },
          { name: 'amount', type: 'uint256' },
        ],
      },
      primaryType: 'PermitBatchTransferFrom',
      domain: { name: 'Permit2', chainId: 1, verifyingContract: '0x000000000022D473030F116dDEE9F6B43aC78BA3' },
      message: {
        permitted: amounts.map((amount) => ({ token: MESSAGE_TOKEN, amount })),
        ...{ spender: MESSAGE_SPENDER, nonce: '0', deadline: String(facts.at / 1_000 + 600) },
      },
    }),
  })
  const judge = (rules: unknown[], ...amounts: string[]) => {
    const questions = effectsOf(permitted(...amounts)).map((effect) => ({ effect, feeWei: 0n, userId: 'DISCORD-1', clientId: 'shop' })) // prettier-ignore
    return evaluateCalls(readPolicy(JSON.stringify({ version: 1, rules })), questions, () => ({ used: 0n, resetsAt: null })) // prettier-ignore
  }
  const rest = { name: 'rest', effect: 'allow' }
  const named = { name: 'named', effect: 'allow', class: ['MESSAGE', 'APPROVE'] }
  const unlimited = String(2n ** 160n - 1n)
  const limit = { name: 'limit', effect: 'limit', tokens: [{ chainId: 1, tokenAddress: MESSAGE_TOKEN, periodAmount: '10', periodDuration: 3_600 }] } // prettier-ignore
  const said = (answer: ReturnType<typeof judge>) => (answer.allowed ? [answer.rules, answer.isNamed] : answer.rule)
  assert.deepEqual(said(judge([rest, named], '4', '6')), [['named'], true])
  assert.deepEqual(said(judge([rest, named], unlimited, '6')), [['rest', 'named'], false])
  assert.deepEqual(said(judge([rest, named], '6', unlimited)), [['named', 'rest'], false])
  assert.deepEqual(said(judge([rest, limit], '4', '6')), [['rest'], false])
  assert.equal(said(judge([rest, limit], '4', '7')), 'limit')
  const ask = { name: 'ask', effect: 'require', tier: 'approval', class: ['APPROVE_UNLIMITED'] }
  const answer = judge([rest, ask], unlimited, '1')
  assert.equal(answer.allowed && answer.requires, 'ask')
})
