import type { KnownAddresses } from '../src/oauth/account/slices.ts'
import type { ApprovalContent } from '../src/store/column-values.ts'
import type { Hex } from '../src/ids.ts'

/** Contracts and people of the requests below. */
const USDC: Hex = `0x${'aa'.repeat(20)}`
const FAKE: Hex = `0x${'bb'.repeat(20)}`
const ART: Hex = `0x${'cc'.repeat(20)}`
export const ROUTER: Hex = '0x1f9840a85d5af5bf1d1762f925bdaddc4201f984'
const PERMIT2: Hex = '0x000000000022d473030f116ddee9f6b43ac78ba3'
const CHAIN = 31_337
const MAX = String(2n ** 256n - 1n)
const DOMAIN_TYPES = [
  { name: 'name', type: 'string' },
  { name: 'version', type: 'string' },
  { name: 'chainId', type: 'uint256' },
  { name: 'verifyingContract', type: 'address' },
]

/** What is known of the addresses above: USDC is listed, FAKE calls itself the same, ART is a collection. */
export const known: KnownAddresses = {
  native: { symbol: 'ETH', decimals: 18 },
  tokens: [
    { token: USDC, symbol: 'USDC', decimals: 6, isListed: true, isSpam: false, isCollection: false },
    { token: FAKE, symbol: 'USDC', decimals: 6, isListed: false, isSpam: true, isCollection: false },
    { token: ART, symbol: 'ART', decimals: 0, isListed: true, isSpam: false, isCollection: true },
  ],
  dealtWith: [],
}

type Field = { name: string; type: string }
const fields = (text: string): Field[] =>
  text.split(',').map((one) => {
    const [type, name] = one.split(' ')
    return { type: type!, name: name! }
  })

function typed(
  primaryType: string,
  types: Record<string, string>,
  message: object,
  domain: { name?: string; verifyingContract: Hex },
): ApprovalContent {
  const content = JSON.stringify({
    types: {
      EIP712Domain: DOMAIN_TYPES,
      ...Object.fromEntries(Object.entries(types).map(([name, text]) => [name, fields(text)])),
    },
    primaryType,
    domain: { name: 'Example', version: '1', chainId: String(CHAIN), ...domain },
    message,
  })
  return { message: { kind: 'typedData', content } }
}

const text = (content: string): ApprovalContent => ({ message: { kind: 'text', content } })
const word = (value: bigint | Hex): string => BigInt(value).toString(16).padStart(64, '0')
const call = (to: Hex, selector: string, words: (bigint | Hex)[] = [], value = 0n) => ({
  to,
  value: String(value),
  data: `0x${selector}${words.map(word).join('')}` as Hex,
})

/**
 * Requests of every kind that a page can show, by name.
 * @param of   the account that signs, and another user's
 * @param now  seconds since 1970
 */
export function approvalRequests(of: { address: Hex; bob: Hex }, now: number): Record<string, ApprovalContent> {
  const { address, bob } = of
  const permit = (token: Hex, value: string, deadline: number) =>
    typed(
      'Permit',
      { Permit: 'address owner,address spender,uint256 value,uint256 nonce,uint256 deadline' },
      { owner: address, spender: ROUTER, value, nonce: '0', deadline: String(deadline) },
      { verifyingContract: token },
    )
  return {
    text: text('I accept the terms of the shop.\nVersion 7\u202Etxt.exe'),
    payment: typed(
      'TransferWithAuthorization',
      {
        TransferWithAuthorization:
          'address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce',
      },
      { from: address, to: bob, value: '5000000', validAfter: '0', validBefore: String(now + 600), nonce: `0x${'01'.repeat(32)}` }, // prettier-ignore
      { verifyingContract: USDC },
    ),
    allowance: typed(
      'PermitSingle',
      {
        PermitSingle: 'PermitDetails details,address spender,uint256 sigDeadline',
        PermitDetails: 'address token,uint160 amount,uint48 expiration,uint48 nonce',
      },
      {
        details: { token: USDC, amount: '50000000', expiration: String(now + 2_592_000), nonce: '0' },
        spender: ROUTER,
        sigDeadline: String(now + 600),
      },
      { name: 'Permit2', verifyingContract: PERMIT2 },
    ),
    'allowance without end': permit(USDC, MAX, now + 600),
    'allowance of a namesake': permit(FAKE, '50000000', now + 600),
    revocation: permit(USDC, '0', now + 600),
    order: typed(
      'Order',
      {
        Order:
          'address sellToken,address buyToken,address receiver,uint256 sellAmount,uint256 buyAmount,uint32 validTo,bytes32 appData,uint256 feeAmount,string kind,bool partiallyFillable,string sellTokenBalance,string buyTokenBalance',
      },
      {
        ...{ sellToken: USDC, buyToken: ART, receiver: bob, sellAmount: '1000000000', buyAmount: '1' },
        ...{ validTo: now + 3_600, appData: `0x${'00'.repeat(32)}`, feeAmount: '0', kind: 'sell' },
        ...{ partiallyFillable: false, sellTokenBalance: 'erc20', buyTokenBalance: 'erc20' },
      },
      { name: 'Gnosis Protocol', verifyingContract: '0x9008d19f58aabd9ed0d60971565aa8510560ab41' },
    ),
    vote: typed(
      'Delegation',
      { Delegation: 'address delegatee,uint256 nonce,uint256 expiry' },
      { delegatee: bob, nonce: '0', expiry: String(now + 600) },
      { verifyingContract: USDC },
    ),
    power: typed(
      'ForwardRequest',
      { ForwardRequest: 'address from,address to,uint256 value,uint256 gas,uint256 nonce,bytes data' },
      { from: address, to: ROUTER, value: '0', gas: '100000', nonce: '0', data: '0x1234' },
      { verifyingContract: ROUTER },
    ),
    other: typed(
      'Mail',
      { Mail: 'address from,string contents' },
      { from: address, contents: 'Hello\u200B, Bob' },
      { verifyingContract: ROUTER },
    ),
    opaque: { message: { kind: 'bytes', content: `0x${'9c'.repeat(32)}` } },
    coins: { calls: [{ to: bob, value: '1500000000000000000', data: '0x' }] },
    tokens: { calls: [call(USDC, 'a9059cbb', [bob, 25_000_000n])] },
    approve: { calls: [call(USDC, '095ea7b3', [ROUTER, 2n ** 256n - 1n])] },
    collection: { calls: [call(ART, 'a22cb465', [ROUTER, 1n])] },
    collectible: { calls: [call(ART, '42842e0e', [address, bob, 77n])] },
    call: { calls: [call(ROUTER, 'deadbeef', [1n], 10n ** 16n)] },
    batch: { calls: [call(USDC, '095ea7b3', [ROUTER, 50_000_000n]), call(ROUTER, 'deadbeef', [7n])] },
  }
}
