import { getAddress } from 'viem'
import type { MessageContent } from '../../src/signer-wire/wire-messages.ts'
import type { Hex } from '../../src/ids.ts'

/** Messages of every class, as applications send them. For tests. */
export type SampleFacts = { address: Hex; chainId: number; /** milliseconds since 1970 */ at: number }

export const MESSAGE_TOKEN = getAddress(`0x${'7e'.repeat(20)}`)
export const MESSAGE_SPENDER = getAddress(`0x${'5e'.repeat(20)}`)
export const LOGIN_HOST = 'shop.example'

const uint = (name: string) => ({ name, type: 'uint256' })
const address = (name: string) => ({ name, type: 'address' })

const PERMIT_TYPES = { Permit: [address('owner'), address('spender'), uint('value'), uint('nonce'), uint('deadline')] } // prettier-ignore
export const PERMIT = 'Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)'

const seconds = (at: number): string => String(Math.floor(at / 1_000) + 3_600)

/** Typed data as JSON text, as viem takes it as an object. */
const typed = (data: {
  types: Record<string, { name: string; type: string }[]>
  primaryType: string
  domain: Record<string, unknown>
  message: Record<string, unknown>
}): { typedData: string } => ({ typedData: JSON.stringify(data) })

const domainOf = ({ chainId }: SampleFacts, verifyingContract: Hex = MESSAGE_TOKEN) => ({ name: 'Sample', version: '1', chainId, verifyingContract }) // prettier-ignore

/** A permit that may be used for an hour. */
export const permit = (
  facts: SampleFacts,
  { value = '10', spender = MESSAGE_SPENDER, token = MESSAGE_TOKEN, nonce = '0', deadline = seconds(facts.at) } = {},
): { typedData: string } =>
  typed({
    types: PERMIT_TYPES,
    primaryType: 'Permit',
    domain: domainOf(facts, token),
    message: { owner: facts.address, spender, value, nonce, deadline },
  })

/** A login text of ERC-4361. */
export const login = ({ address, chainId, at }: SampleFacts, host: string = LOGIN_HOST): { text: string } => ({
  text: `${host} wants you to sign in with your Ethereum account:\n${getAddress(address)}\n\nHello.\n\nURI: https://${host}/login\nVersion: 1\nChain ID: ${chainId}\nNonce: 12345678abc\nIssued At: ${new Date(at).toISOString()}`,
})

/** The same, which grants a resource. */
const grantingLogin = (facts: SampleFacts) => ({ text: `${login(facts).text}\nResources:\n- urn:recap:eyJhdHQiOnt9fQ` })

/** A second more than a day from now. */
const nextDay = (at: number): string => String(Math.floor(at / 1_000) + 86_401)

/** A payment that somebody else sends, within an hour. */
const payment = (facts: SampleFacts, { validBefore = seconds(facts.at) } = {}) =>
  typed({
    types: {
      TransferWithAuthorization: [address('from'), address('to'), uint('value'), uint('validAfter'), uint('validBefore'), { name: 'nonce', type: 'bytes32' }], // prettier-ignore
    },
    primaryType: 'TransferWithAuthorization',
    domain: domainOf(facts),
    message: { from: facts.address, to: MESSAGE_SPENDER, value: '7', validAfter: '0', validBefore, nonce: `0x${'11'.repeat(32)}` }, // prettier-ignore
  })

/** One message of each class, and of what goes beyond it. */
export const SAMPLES = {
  login,
  grantingLogin,
  text: () => ({ text: 'Hello, 世界' }),
  payment: (facts) => payment(facts),
  cheque: (facts) => payment(facts, { validBefore: nextDay(facts.at) }),
  allowance: (facts) => permit(facts),
  longAllowance: (facts) => permit(facts, { deadline: nextDay(facts.at) }),
  unlimited: (facts) => permit(facts, { value: String(2n ** 256n - 1n) }),
  order: (facts) =>
    typed({
      types: {
        Order: [uint('salt'), ...['maker', 'receiver', 'makerAsset', 'takerAsset'].map(address), uint('makingAmount'), uint('takingAmount'), uint('makerTraits')], // prettier-ignore
      },
      primaryType: 'Order',
      domain: domainOf(facts, MESSAGE_SPENDER),
      message: { salt: '1', maker: facts.address, receiver: facts.address, makerAsset: MESSAGE_TOKEN, takerAsset: MESSAGE_SPENDER, makingAmount: '9', takingAmount: '1', makerTraits: '0' }, // prettier-ignore
    }),
  vote: (facts) =>
    typed({
      types: { Delegation: [address('delegatee'), uint('nonce'), uint('expiry')] },
      primaryType: 'Delegation',
      domain: domainOf(facts),
      message: { delegatee: MESSAGE_SPENDER, nonce: '0', expiry: seconds(facts.at) },
    }),
  power: (facts) =>
    typed({
      types: {
        ForwardRequest: [address('from'), address('to'), uint('value'), uint('gas'), uint('nonce'), { name: 'data', type: 'bytes' }], // prettier-ignore
      },
      primaryType: 'ForwardRequest',
      domain: domainOf(facts, MESSAGE_SPENDER),
      message: { from: facts.address, to: MESSAGE_TOKEN, value: '0', gas: '1', nonce: '0', data: '0x' },
    }),
  other: (facts) =>
    typed({
      types: { Mail: [{ name: 'contents', type: 'string' }] },
      primaryType: 'Mail',
      domain: domainOf(facts, MESSAGE_SPENDER),
      message: { contents: 'Hello' },
    }),
  opaque: () => ({ hex: `0x${'ff'.repeat(32)}` as Hex }),
} as const satisfies Record<string, (facts: SampleFacts) => MessageContent>
