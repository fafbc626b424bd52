import assert from 'node:assert/strict'
import { suite, test } from 'node:test'
import { encodeFunctionData, getAddress, maxUint160, maxUint256, parseAbi } from 'viem'
import { randomOf } from '../../test/random.ts'
import { keccak } from '../keccak.ts'
import { operationDigest } from '../gas/operation.ts'
import { GAS_PAIRS } from '../gas/addresses.ts'
import { classify, type Classified, type MessageFacts } from './classify.ts'
import { digestOf, MessageInvalid, messageText, readMessage, type Message } from './message.ts'
import { typedDataDigest, readTypedData } from './typed-data.ts'

const hex = (text: string): Buffer => Buffer.from(text.slice(2), 'hex')
const ALICE = '0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045'
const BOB = '0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB'
const ZERO = `0x${'00'.repeat(20)}`
const WORD = `0x${'11'.repeat(32)}`
const PERMIT2 = '0x000000000022D473030F116dDEE9F6B43aC78BA3'
const USDC = '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'
const DAI = '0x6B175474E89094C44Da98b954EedeAC495271d0F'
const AT = Date.UTC(2026, 10, 28, 12)
const NOW = AT / 1_000
const SOON = NOW + 1_800
const DAY = NOW + 86_400

const facts: MessageFacts = { address: hex(ALICE), chainId: 1, at: AT, domains: ['app.example'] }

/** Typed data of a type as `encodeType` writes it. */
function typed(encoded: string, message: object, domain: object = {}): Record<string, unknown> {
  const types = [...encoded.matchAll(/([\w$]+)\(([^)]*)\)/g)].map(([, name, members]) => [
    name,
    members!.split(',').map((member) => {
      const [type, field] = member.split(' ')
      return { name: field, type }
    }),
  ])
  return {
    types: Object.fromEntries(types) as unknown,
    primaryType: encoded.slice(0, encoded.indexOf('(')),
    domain: { name: 'Test', chainId: 1, verifyingContract: USDC, ...domain },
    message,
  }
}

const read = (typedData: unknown): Message => readMessage({ typedData })
const classOf = (typedData: unknown, changes: Partial<MessageFacts> = {}): Classified =>
  classify(read(typedData), { ...facts, ...changes })

const abi = parseAbi([
  'function transfer(address to, uint256 amount)',
  'function approve(address spender, uint256 amount)',
  'function setApprovalForAll(address operator, bool approved)',
  'function approveDelegation(address delegatee, uint256 amount)',
  'function allow(address manager, bool isAllowed)',
])
const permit2Abi = parseAbi(['function approve(address token, address spender, uint160 amount, uint48 expiration)'])
const call = (to: string, functionName: string, args: readonly unknown[]) => ({
  to: to.toLowerCase(),
  value: 0n,
  data: encodeFunctionData({ abi, functionName, args } as unknown as Parameters<typeof encodeFunctionData>[0]),
})
const permit2Call = (token: string, spender: string, amount: bigint, expiration: number) => ({
  to: PERMIT2.toLowerCase(),
  value: 0n,
  data: encodeFunctionData({
    abi: permit2Abi,
    args: [getAddress(token), getAddress(spender), amount, expiration],
  }),
})
const callsOf = ({ calls }: Classified) =>
  calls.map(({ to, value, data }) => ({ to: `0x${to.toString('hex')}`, value, data: `0x${data.toString('hex')}` }))

const AUTHORIZED = '(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)'
const DETAILS = 'PermitDetails(address token,uint160 amount,uint48 expiration,uint48 nonce)'
const PERMITTED = 'TokenPermissions(address token,uint256 amount)'
const FROM = 'TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline'
const BATCH_FROM = FROM.replace('TokenPermissions', 'TokenPermissions[]')
const PERMIT = 'Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)'
const DAI_PERMIT = 'Permit(address holder,address spender,uint256 nonce,uint256 expiry,bool allowed)'
const NFT_PERMIT = 'Permit(address spender,uint256 tokenId,uint256 nonce,uint256 deadline)'
const COMPOUND = 'Authorization(address owner,address manager,bool isAllowed,uint256 nonce,uint256 expiry)'
const SINGLE = `PermitSingle(PermitDetails details,address spender,uint256 sigDeadline)${DETAILS}`
const X402 = `PermitWitnessTransferFrom(${FROM},Witness witness)${PERMITTED}Witness(address to,uint256 validAfter)`
const X402_PROXY = '0x402085c248EeA27D92E8b30b2C58ed07f9E20001'
const OFFER =
  'OfferItem(uint8 itemType,address token,uint256 identifierOrCriteria,uint256 startAmount,uint256 endAmount)'
const SEAPORT = `OrderComponents(address offerer,address zone,OfferItem[] offer,ConsiderationItem[] consideration,uint8 orderType,uint256 startTime,uint256 endTime,bytes32 zoneHash,uint256 salt,bytes32 conduitKey,uint256 counter)ConsiderationItem(uint8 itemType,address token,uint256 identifierOrCriteria,uint256 startAmount,uint256 endAmount,address recipient)${OFFER}`
const BULK = `BulkOrder(OrderComponents[2][2] tree)${SEAPORT.slice(SEAPORT.indexOf('ConsiderationItem('))}${SEAPORT.slice(0, SEAPORT.indexOf('ConsiderationItem('))}`
const COW =
  'Order(address sellToken,address buyToken,address receiver,uint256 sellAmount,uint256 buyAmount,uint32 validTo,bytes32 appData,uint256 feeAmount,string kind,bool partiallyFillable,string sellTokenBalance,string buyTokenBalance)'
const OPERATION =
  'Operation(address dispatcher,uint256 id,Call[] calls,uint256 gasLimit,uint256 deadline)Call(address to,uint256 value,bytes data)'
const CALIBUR =
  'SignedBatchedCall(BatchedCall batchedCall,uint256 nonce,bytes32 keyHash,address executor,uint256 deadline)BatchedCall(Call[] calls,bool revertOnFailure)Call(address to,uint256 value,bytes data)'

const permit = (changes: object = {}) => ({ owner: ALICE, spender: BOB, value: '50000000', nonce: 0, deadline: SOON, ...changes }) // prettier-ignore
const authorized = { from: ALICE, to: BOB, value: '10000', validAfter: 0, validBefore: SOON, nonce: WORD }
const single = (changes: object = {}) => ({
  details: { token: USDC, amount: '1000', expiration: SOON, nonce: 0, ...changes },
  spender: BOB,
  sigDeadline: SOON,
})
const permitted = { permitted: { token: USDC, amount: '1000' }, spender: BOB, nonce: 1, deadline: SOON }
const item = (itemType: number, token: string, id: number, amount: string, end = amount) => ({ itemType, token, identifierOrCriteria: id, startAmount: amount, endAmount: end }) // prettier-ignore
const seaport = (changes: object = {}) => ({
  ...{
    offerer: ALICE,
    zone: ZERO,
    orderType: 0,
    startTime: 0,
    endTime: SOON,
    zoneHash: WORD,
    salt: 1,
    conduitKey: WORD,
  },
  counter: 0,
  offer: [item(2, DAI, 7, '1')],
  consideration: [{ ...item(0, ZERO, 0, '1000'), recipient: ALICE }],
  ...changes,
})
const SEAPORT_16 = { name: 'Seaport', version: '1.6', verifyingContract: '0x0000000000000068F116a894984e2DB1123eB395' }
const cow = { sellToken: DAI, buyToken: USDC, receiver: ALICE, sellAmount: '100', buyAmount: '99', validTo: SOON, appData: WORD, feeAmount: '1', kind: 'sell', partiallyFillable: false, sellTokenBalance: 'erc20', buyTokenBalance: 'erc20' } // prettier-ignore
const ROUTER = '0x111111125421cA6dc452d289314280a0f8842A65'
const oneInch = { salt: 1, maker: ALICE, receiver: ZERO, makerAsset: DAI, takerAsset: USDC, makingAmount: '100', takingAmount: '99' } // prettier-ignore
const zeroEx = { makerToken: DAI, takerToken: USDC, makerAmount: '100', takerAmount: '99', maker: ALICE, taker: ZERO, txOrigin: BOB } // prettier-ignore
const AT_PERMIT2 = { name: 'Permit2', verifyingContract: PERMIT2 }

type Example = {
  what: string
  typed: Record<string, unknown>
  class: Classified['class']
  needs: Classified['needs']
  sentence?: Classified['summary']['sentence']
  calls?: object[]
  warnings?: Classified['summary']['warnings']
  moves?: object[]
}

const usdcTo = (amount: string, until: number | null = null) => ({ kind: 'allows', token: USDC, amount, item: null, to: BOB, until }) // prettier-ignore

/** Every row of the table, by an example as its users sign it. */
const EXAMPLES: Example[] = [
  {
    what: 'EIP-3009 transfer, as x402 pays with USDC',
    typed: typed(`TransferWithAuthorization${AUTHORIZED}`, authorized, { name: 'USD Coin', version: '2' }),
    ...{ class: 'payment', needs: 'token', sentence: 'pay', calls: [call(USDC, 'transfer', [BOB, 10_000n])] },
    moves: [{ kind: 'pays', token: USDC, amount: '10000', item: null, to: BOB, until: SOON }],
  },
  {
    what: 'EIP-3009 transfer for a day',
    typed: typed(`TransferWithAuthorization${AUTHORIZED}`, { ...authorized, validBefore: DAY }),
    ...{ class: 'payment', needs: 'token', calls: [call(USDC, 'transfer', [BOB, 10_000n])] },
  },
  {
    what: 'EIP-3009 transfer for a second longer: a cheque',
    typed: typed(`TransferWithAuthorization${AUTHORIZED}`, { ...authorized, validBefore: DAY + 1 }),
    ...{ class: 'payment', needs: 'approval', sentence: 'pay', calls: [call(USDC, 'transfer', [BOB, 10_000n])] },
    ...{ warnings: ['long'], moves: [{ kind: 'pays', token: USDC, amount: '10000', item: null, to: BOB, until: DAY + 1 }] }, // prettier-ignore
  },
  {
    what: 'EIP-3009 transfer without an end',
    typed: typed(`TransferWithAuthorization${AUTHORIZED}`, { ...authorized, validBefore: maxUint256.toString() }),
    ...{ class: 'payment', needs: 'approval', sentence: 'pay', calls: [call(USDC, 'transfer', [BOB, 10_000n])] },
    ...{ warnings: ['long'], moves: [{ kind: 'pays', token: USDC, amount: '10000', item: null, to: BOB, until: null }] }, // prettier-ignore
  },
  {
    what: 'EIP-3009 receive',
    typed: typed(`ReceiveWithAuthorization${AUTHORIZED}`, authorized),
    ...{ class: 'payment', needs: 'token', sentence: 'pay', calls: [call(USDC, 'transfer', [BOB, 10_000n])] },
  },
  {
    what: 'EIP-3009 cancel',
    typed: typed('CancelAuthorization(address authorizer,bytes32 nonce)', { authorizer: ALICE, nonce: WORD }),
    ...{ class: 'other', needs: 'approval', sentence: 'revoke', warnings: ['unknown'] },
  },
  {
    what: 'EIP-2612',
    typed: typed(PERMIT, permit()),
    ...{ class: 'allowance', needs: 'token', sentence: 'allow', calls: [call(USDC, 'approve', [BOB, 50_000_000n])] },
    moves: [usdcTo('50000000')],
  },
  {
    what: 'EIP-2612 for a day',
    typed: typed(PERMIT, permit({ deadline: DAY })),
    ...{ class: 'allowance', needs: 'token', sentence: 'allow', calls: [call(USDC, 'approve', [BOB, 50_000_000n])] },
  },
  {
    what: 'EIP-2612 for a second longer',
    typed: typed(PERMIT, permit({ deadline: DAY + 1 })),
    ...{
      class: 'allowance',
      needs: 'approval',
      calls: [call(USDC, 'approve', [BOB, 50_000_000n])],
      warnings: ['long'],
    },
  },
  {
    what: 'EIP-2612, unlimited',
    typed: typed(PERMIT, permit({ value: maxUint256.toString() })),
    ...{ class: 'allowance', needs: 'approval', calls: [call(USDC, 'approve', [BOB, maxUint256])] },
    ...{ warnings: ['unlimited'], moves: [usdcTo('unlimited')] },
  },
  {
    what: 'EIP-2612 by the smallest unlimited amount',
    typed: typed(PERMIT, permit({ value: (2n ** 127n - 1n).toString() })),
    ...{ class: 'allowance', needs: 'approval', calls: [call(USDC, 'approve', [BOB, 2n ** 127n - 1n])] },
    warnings: ['unlimited'],
  },
  {
    what: 'EIP-2612 by the largest amount of UNI',
    typed: typed(PERMIT, permit({ value: (2n ** 96n - 1n).toString() })),
    ...{ class: 'allowance', needs: 'approval', calls: [call(USDC, 'approve', [BOB, 2n ** 96n - 1n])] },
    warnings: ['unlimited'],
  },
  {
    what: 'EIP-2612 by the largest amount that has an end',
    typed: typed(PERMIT, permit({ value: (2n ** 127n - 2n).toString() })),
    ...{ class: 'allowance', needs: 'token', calls: [call(USDC, 'approve', [BOB, 2n ** 127n - 2n])] },
  },
  {
    what: 'EIP-2612 that revokes',
    typed: typed(PERMIT, permit({ value: 0, deadline: maxUint256.toString() })),
    ...{ class: 'allowance', needs: 'token', sentence: 'revoke', calls: [call(USDC, 'approve', [BOB, 0n])] },
  },
  {
    what: 'DAI',
    typed: typed(DAI_PERMIT, { holder: ALICE, spender: BOB, nonce: 0, expiry: SOON, allowed: true }, { verifyingContract: DAI }), // prettier-ignore
    ...{ class: 'allowance', needs: 'approval', sentence: 'allow', calls: [call(DAI, 'approve', [BOB, maxUint256])] },
    warnings: ['unlimited'],
  },
  {
    what: 'DAI without an expiry',
    typed: typed(DAI_PERMIT, { holder: ALICE, spender: BOB, nonce: 0, expiry: 0, allowed: true }, { verifyingContract: DAI }), // prettier-ignore
    ...{ class: 'allowance', needs: 'approval', calls: [call(DAI, 'approve', [BOB, maxUint256])] },
    warnings: ['unlimited', 'long'],
  },
  {
    what: 'DAI that revokes',
    typed: typed(DAI_PERMIT, { holder: ALICE, spender: BOB, nonce: 0, expiry: 0, allowed: false }, { verifyingContract: DAI }), // prettier-ignore
    ...{ class: 'allowance', needs: 'token', sentence: 'revoke', calls: [call(DAI, 'approve', [BOB, 0n])] },
  },
  {
    what: 'ERC-4494, a position of Uniswap',
    typed: typed(NFT_PERMIT, { spender: BOB, tokenId: 4_242, nonce: 0, deadline: SOON }),
    ...{ class: 'allowance', needs: 'token', sentence: 'allow', calls: [call(USDC, 'approve', [BOB, 4_242n])] },
    moves: [{ kind: 'allows', token: USDC, amount: '1', item: '4242', to: BOB, until: null }],
  },
  {
    what: 'all positions of Uniswap 4',
    typed: typed('PermitForAll(address operator,bool approved,uint256 nonce,uint256 deadline)', { operator: BOB, approved: true, nonce: 0, deadline: SOON }), // prettier-ignore
    ...{ class: 'allowance', needs: 'approval', sentence: 'allow-all', warnings: ['unlimited'] },
    calls: [call(USDC, 'setApprovalForAll', [BOB, true])],
  },
  {
    what: 'credit delegation of Aave',
    typed: typed('DelegationWithSig(address delegatee,uint256 value,uint256 nonce,uint256 deadline)', { delegatee: BOB, value: '1000', nonce: 0, deadline: SOON }), // prettier-ignore
    ...{
      class: 'allowance',
      needs: 'token',
      sentence: 'allow',
      calls: [call(USDC, 'approveDelegation', [BOB, 1_000n])],
    },
  },
  {
    what: 'a manager of Compound III',
    typed: typed(COMPOUND, { owner: ALICE, manager: BOB, isAllowed: true, nonce: 0, expiry: SOON }),
    ...{ class: 'allowance', needs: 'approval', sentence: 'allow-all', calls: [call(USDC, 'allow', [BOB, true])] },
    ...{ warnings: ['unlimited'], moves: [usdcTo('all')] },
  },
  {
    what: 'a manager of Compound III, dismissed',
    typed: typed(COMPOUND, { owner: ALICE, manager: BOB, isAllowed: false, nonce: 0, expiry: SOON }),
    ...{ class: 'allowance', needs: 'token', sentence: 'revoke', calls: [call(USDC, 'allow', [BOB, false])] },
  },
  {
    what: 'a manager of Morpho',
    typed: typed('Authorization(address authorizer,address authorized,bool isAuthorized,uint256 nonce,uint256 deadline)', { authorizer: ALICE, authorized: BOB, isAuthorized: true, nonce: 0, deadline: SOON }), // prettier-ignore
    ...{ class: 'allowance', needs: 'approval', sentence: 'allow-all', calls: [call(USDC, 'allow', [BOB, true])] },
    warnings: ['unlimited'],
  },
  {
    what: 'Permit2, a swap of Uniswap',
    typed: typed(SINGLE, single(), AT_PERMIT2),
    ...{ class: 'allowance', needs: 'token', sentence: 'allow', calls: [permit2Call(USDC, BOB, 1_000n, SOON)] },
    moves: [usdcTo('1000', SOON)],
  },
  {
    what: 'Permit2 for thirty days, unlimited, as Uniswap asks',
    typed: typed(SINGLE, single({ amount: maxUint160.toString(), expiration: NOW + 2_592_000 }), AT_PERMIT2),
    ...{ class: 'allowance', needs: 'approval', calls: [permit2Call(USDC, BOB, maxUint160, NOW + 2_592_000)] },
    warnings: ['unlimited', 'long'],
  },
  {
    what: 'Permit2 that expires at once: until its deadline',
    typed: typed(SINGLE, { ...single({ expiration: 0 }), sigDeadline: DAY + 1 }, AT_PERMIT2),
    ...{ class: 'allowance', needs: 'approval', calls: [permit2Call(USDC, BOB, 1_000n, DAY + 1)], warnings: ['long'] },
  },
  {
    what: 'Permit2 batch',
    typed: typed(`PermitBatch(PermitDetails[] details,address spender,uint256 sigDeadline)${DETAILS}`, { ...single(), details: [single().details, { ...single().details, token: DAI }] }, AT_PERMIT2), // prettier-ignore
    ...{ class: 'allowance', needs: 'token', sentence: 'allow' },
    calls: [permit2Call(USDC, BOB, 1_000n, SOON), permit2Call(DAI, BOB, 1_000n, SOON)],
  },
  {
    what: 'Permit2 transfer',
    typed: typed(`PermitTransferFrom(${FROM})${PERMITTED}`, permitted, AT_PERMIT2),
    ...{ class: 'allowance', needs: 'token', calls: [permit2Call(USDC, BOB, 1_000n, SOON)] },
  },
  {
    what: 'Permit2 batch transfer, one of it unlimited',
    typed: typed(`PermitBatchTransferFrom(${BATCH_FROM})${PERMITTED}`, { ...permitted, permitted: [permitted.permitted, { token: DAI, amount: maxUint256.toString() }] }, AT_PERMIT2), // prettier-ignore
    ...{ class: 'allowance', needs: 'approval', warnings: ['unlimited'] },
    calls: [permit2Call(USDC, BOB, 1_000n, SOON), permit2Call(DAI, BOB, maxUint160, SOON)],
  },
  {
    what: 'x402 by Permit2',
    typed: typed(X402, { ...permitted, spender: X402_PROXY, witness: { to: BOB, validAfter: 0 } }, AT_PERMIT2),
    ...{ class: 'payment', needs: 'token', sentence: 'pay', calls: [call(USDC, 'transfer', [BOB, 1_000n])] },
    moves: [{ kind: 'pays', token: USDC, amount: '1000', item: null, to: BOB, until: SOON }],
  },
  {
    what: 'x402 by Permit2 for more than a day',
    typed: typed(X402, { ...permitted, deadline: DAY + 1, spender: X402_PROXY, witness: { to: BOB, validAfter: 0 } }, AT_PERMIT2), // prettier-ignore
    ...{ class: 'payment', needs: 'approval', calls: [call(USDC, 'transfer', [BOB, 1_000n])], warnings: ['long'] },
  },
  {
    what: 'the witness of x402 for a spender that need not heed it',
    typed: typed(X402, { ...permitted, witness: { to: BOB, validAfter: 0 } }, AT_PERMIT2),
    ...{ class: 'order', needs: 'approval', sentence: 'order', calls: [permit2Call(USDC, BOB, 1_000n, SOON)] },
  },
  {
    what: 'an order of UniswapX',
    typed: typed(`PermitWitnessTransferFrom(${FROM},Dutch witness)Dutch(Info info,uint256 end)Info(address reactor)${PERMITTED}`, { ...permitted, witness: { info: { reactor: BOB }, end: 1 } }, AT_PERMIT2), // prettier-ignore
    ...{ class: 'order', needs: 'approval', sentence: 'order', calls: [permit2Call(USDC, BOB, 1_000n, SOON)] },
  },
  {
    what: 'an order by a Permit2 batch',
    typed: typed(`PermitBatchWitnessTransferFrom(${BATCH_FROM},bytes32 witness)${PERMITTED}`, { ...permitted, permitted: [permitted.permitted], witness: WORD }, AT_PERMIT2), // prettier-ignore
    ...{ class: 'order', needs: 'approval', calls: [permit2Call(USDC, BOB, 1_000n, SOON)] },
  },
  {
    what: 'a listing at OpenSea',
    typed: typed(SEAPORT, seaport(), SEAPORT_16),
    ...{ class: 'order', needs: 'approval', sentence: 'order' },
    calls: [call(DAI, 'approve', [SEAPORT_16.verifyingContract, 7n])],
  },
  {
    what: 'a gift at OpenSea, of everything of a collection, of some tokens and of native currency',
    typed: typed(SEAPORT, seaport({ offer: [item(4, DAI, 0, '1'), item(3, USDC, 1, '5'), item(1, USDC, 0, '5', '9'), item(0, ZERO, 0, '3')], consideration: [] }), SEAPORT_16), // prettier-ignore
    ...{ class: 'order', needs: 'approval', warnings: ['unlimited', 'recipient'] },
    calls: [
      call(DAI, 'setApprovalForAll', [SEAPORT_16.verifyingContract, true]),
      call(USDC, 'setApprovalForAll', [SEAPORT_16.verifyingContract, true]),
      call(USDC, 'approve', [SEAPORT_16.verifyingContract, 9n]),
      { to: SEAPORT_16.verifyingContract.toLowerCase(), value: 3n, data: '0x' },
    ],
  },
  {
    what: 'four listings at OpenSea, one for somebody else',
    typed: typed(
      BULK,
      {
        tree: [
          [seaport(), seaport()],
          [seaport(), seaport({ consideration: [] })],
        ],
      },
      SEAPORT_16,
    ),
    ...{ class: 'order', needs: 'approval', warnings: ['recipient'] },
    calls: Array.from({ length: 4 }, () => call(DAI, 'approve', [SEAPORT_16.verifyingContract, 7n])),
  },
  {
    what: 'CoW Swap',
    typed: typed(COW, cow, { name: 'Gnosis Protocol', version: 'v2', verifyingContract: ROUTER }),
    ...{ class: 'order', needs: 'approval', calls: [call(DAI, 'approve', [ROUTER, 101n])] },
  },
  {
    what: 'CoW Swap to somebody else',
    typed: typed(COW, { ...cow, receiver: BOB }, { verifyingContract: ROUTER }),
    ...{ class: 'order', needs: 'approval', calls: [call(DAI, 'approve', [ROUTER, 101n])], warnings: ['recipient'] },
  },
  {
    what: '1inch 4',
    typed: typed('Order(uint256 salt,address makerAsset,address takerAsset,address maker,address receiver,address allowedSender,uint256 makingAmount,uint256 takingAmount,bytes makerAssetData,bytes takerAssetData,bytes getMakerAmount,bytes getTakerAmount,bytes predicate,bytes permit,bytes interaction)', { ...oneInch, allowedSender: ZERO, makerAssetData: '0x', takerAssetData: '0x', getMakerAmount: '0x', getTakerAmount: '0x', predicate: '0x', permit: '0x', interaction: '0x' }, { verifyingContract: ROUTER }), // prettier-ignore
    ...{ class: 'order', needs: 'approval', calls: [call(DAI, 'approve', [ROUTER, 100n])] },
  },
  {
    what: '1inch 5',
    typed: typed('Order(uint256 salt,address makerAsset,address takerAsset,address maker,address receiver,address allowedSender,uint256 makingAmount,uint256 takingAmount,uint256 offsets,bytes interactions)', { ...oneInch, allowedSender: ZERO, offsets: 0, interactions: '0x' }, { verifyingContract: ROUTER }), // prettier-ignore
    ...{ class: 'order', needs: 'approval', calls: [call(DAI, 'approve', [ROUTER, 100n])] },
  },
  {
    what: '1inch 6, to somebody else',
    typed: typed('Order(uint256 salt,address maker,address receiver,address makerAsset,address takerAsset,uint256 makingAmount,uint256 takingAmount,uint256 makerTraits)', { ...oneInch, receiver: BOB, makerTraits: 0 }, { verifyingContract: ROUTER }), // prettier-ignore
    ...{ class: 'order', needs: 'approval', calls: [call(DAI, 'approve', [ROUTER, 100n])], warnings: ['recipient'] },
  },
  {
    what: '1inch, a quote',
    typed: typed('OrderRFQ(uint256 info,address makerAsset,address takerAsset,address maker,address allowedSender,uint256 makingAmount,uint256 takingAmount)', { info: 1, makerAsset: DAI, takerAsset: USDC, maker: ALICE, allowedSender: ZERO, makingAmount: '100', takingAmount: '99' }, { verifyingContract: ROUTER }), // prettier-ignore
    ...{ class: 'order', needs: 'approval', calls: [call(DAI, 'approve', [ROUTER, 100n])] },
  },
  {
    what: '0x limit order',
    typed: typed('LimitOrder(address makerToken,address takerToken,uint128 makerAmount,uint128 takerAmount,uint128 takerTokenFeeAmount,address maker,address taker,address sender,address feeRecipient,bytes32 pool,uint64 expiry,uint256 salt)', { makerToken: DAI, takerToken: USDC, makerAmount: '100', takerAmount: '99', takerTokenFeeAmount: 0, maker: ALICE, taker: ZERO, sender: ZERO, feeRecipient: BOB, pool: WORD, expiry: SOON, salt: 1 }, { verifyingContract: ROUTER }), // prettier-ignore
    ...{ class: 'order', needs: 'approval', calls: [call(DAI, 'approve', [ROUTER, 100n])] },
  },
  {
    what: '0x RFQ order',
    typed: typed('RfqOrder(address makerToken,address takerToken,uint128 makerAmount,uint128 takerAmount,address maker,address taker,address txOrigin,bytes32 pool,uint64 expiry,uint256 salt)', { ...zeroEx, pool: WORD, expiry: SOON, salt: 1 }, { verifyingContract: ROUTER }), // prettier-ignore
    ...{ class: 'order', needs: 'approval', calls: [call(DAI, 'approve', [ROUTER, 100n])] },
  },
  {
    what: '0x OTC order',
    typed: typed('OtcOrder(address makerToken,address takerToken,uint128 makerAmount,uint128 takerAmount,address maker,address taker,address txOrigin,uint256 expiryAndNonce)', { ...zeroEx, expiryAndNonce: ((BigInt(SOON) << 192n) | 5n).toString() }, { verifyingContract: ROUTER }), // prettier-ignore
    ...{ class: 'order', needs: 'approval', calls: [call(DAI, 'approve', [ROUTER, 100n])] },
    moves: [{ kind: 'allows', token: DAI, amount: '100', item: null, to: ROUTER, until: SOON }],
  },
  {
    what: 'ERC20Votes',
    typed: typed('Delegation(address delegatee,uint256 nonce,uint256 expiry)', { delegatee: BOB, nonce: 0, expiry: SOON }), // prettier-ignore
    ...{ class: 'vote', needs: 'approval', sentence: 'vote' },
  },
  {
    what: 'a vote in a Governor',
    typed: typed('Ballot(uint256 proposalId,uint8 support,address voter,uint256 nonce)', { proposalId: 1, support: 1, voter: ALICE, nonce: 0 }), // prettier-ignore
    ...{ class: 'vote', needs: 'approval', sentence: 'vote' },
  },
  {
    what: 'a vote in Snapshot',
    typed: { ...typed('Vote(address from,string space,uint64 timestamp,bytes32 proposal,uint32 choice,string reason,string app,string metadata)', { from: ALICE, space: 'ens.eth', timestamp: NOW, proposal: WORD, choice: 1, reason: '', app: 'snapshot', metadata: '{}' }), domain: { name: 'snapshot', version: '0.1.4' } }, // prettier-ignore
    ...{ class: 'vote', needs: 'approval', sentence: 'vote', warnings: ['no-chain'] },
  },
  {
    what: 'a proposal in Snapshot',
    typed: { ...typed('Proposal(address from,string space,uint64 timestamp,string type,string title,string body,string discussion,string[] choices,uint64 start,uint64 end,uint64 snapshot,string plugins,string app)', { from: ALICE, space: 'ens.eth', timestamp: NOW, type: 'basic', title: 't', body: 'b', discussion: '', choices: ['For'], start: 1, end: 2, snapshot: 3, plugins: '{}', app: 'snapshot' }), domain: { name: 'snapshot', version: '0.1.4' } }, // prettier-ignore
    ...{ class: 'vote', needs: 'approval', warnings: ['no-chain'] },
  },
  ...powers(),
  {
    what: 'what nobody knows',
    typed: typed('Mail(address to,string text)', { to: BOB, text: 'Hello' }),
    ...{ class: 'other', needs: 'approval', sentence: 'other', warnings: ['unknown'] },
  },
]

function powers(): Example[] {
  const RELAYED = 'address relayWorker,address paymaster,address forwarder,bytes paymasterData,uint256 clientId'
  const operation = { sender: ALICE, nonce: 0, initCode: '0x', callData: '0x', preVerificationGas: 1, paymasterAndData: '0x' } // prettier-ignore
  const forward = { from: ALICE, to: BOB, value: 0, gas: 1, nonce: 0, data: '0x' }
  const relayed = { relayWorker: BOB, paymaster: BOB, forwarder: USDC, paymasterData: '0x', clientId: 1 }
  const gelato = { chainId: 1, target: BOB, data: '0x' }
  const all: [string, string, object][] = [
    ['an operation of ERC-4337', 'PackedUserOperation(address sender,uint256 nonce,bytes initCode,bytes callData,bytes32 accountGasLimits,uint256 preVerificationGas,bytes32 gasFees,bytes paymasterAndData)', { ...operation, accountGasLimits: WORD, gasFees: WORD }],
    ['an older operation of ERC-4337', 'UserOperation(address sender,uint256 nonce,bytes initCode,bytes callData,uint256 callGasLimit,uint256 verificationGasLimit,uint256 preVerificationGas,uint256 maxFeePerGas,uint256 maxPriorityFeePerGas,bytes paymasterAndData)', { ...operation, callGasLimit: 1, verificationGasLimit: 1, maxFeePerGas: 1, maxPriorityFeePerGas: 1 }],
    ['an operation of a Safe', 'SafeOp(address safe,uint256 nonce,bytes initCode,bytes callData,uint128 verificationGasLimit,uint128 callGasLimit,uint256 preVerificationGas,uint128 maxPriorityFeePerGas,uint128 maxFeePerGas,bytes paymasterAndData,uint48 validAfter,uint48 validUntil,address entryPoint)', { safe: BOB, nonce: 0, initCode: '0x', callData: '0x', verificationGasLimit: 1, callGasLimit: 1, preVerificationGas: 1, maxPriorityFeePerGas: 1, maxFeePerGas: 1, paymasterAndData: '0x', validAfter: 0, validUntil: 0, entryPoint: BOB }],
    ['a forwarder of OpenZeppelin 4', 'ForwardRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,bytes data)', forward],
    ['a forwarder of OpenZeppelin 5', 'ForwardRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,uint48 deadline,bytes data)', { ...forward, deadline: SOON }],
    ['a meta-transaction', 'MetaTransaction(uint256 nonce,address from,bytes functionSignature)', { nonce: 0, from: ALICE, functionSignature: '0xa9059cbb' }],
    ['a transaction of a Safe', 'SafeTx(address to,uint256 value,bytes data,uint8 operation,uint256 safeTxGas,uint256 baseGas,uint256 gasPrice,address gasToken,address refundReceiver,uint256 nonce)', { to: BOB, value: 1, data: '0x', operation: 0, safeTxGas: 0, baseGas: 0, gasPrice: 0, gasToken: ZERO, refundReceiver: ZERO, nonce: 0 }],
    ['a transaction of an old Safe', 'SafeTx(address to,uint256 value,bytes data,uint8 operation,uint256 safeTxGas,uint256 dataGas,uint256 gasPrice,address gasToken,address refundReceiver,uint256 nonce)', { to: BOB, value: 1, data: '0x', operation: 0, safeTxGas: 0, dataGas: 0, gasPrice: 0, gasToken: ZERO, refundReceiver: ZERO, nonce: 0 }],
    ['the forwarder of GSN 2', 'ForwardRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,bytes data,uint256 validUntil)', { ...forward, validUntil: 1 }],
    ['the forwarder of GSN 3', 'ForwardRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,bytes data,uint256 validUntilTime)', { ...forward, validUntilTime: 1 }],
    ['a request of GSN 2', `RelayRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,bytes data,uint256 validUntil,RelayData relayData)RelayData(uint256 gasPrice,uint256 pctRelayFee,uint256 baseRelayFee,${RELAYED})`, { ...forward, validUntil: 1, relayData: { ...relayed, gasPrice: 1, pctRelayFee: 0, baseRelayFee: 0 } }],
    ['a request of GSN 3', `RelayRequest(address from,address to,uint256 value,uint256 gas,uint256 nonce,bytes data,uint256 validUntilTime,RelayData relayData)RelayData(uint256 maxFeePerGas,uint256 maxPriorityFeePerGas,uint256 transactionCalldataGasUsed,${RELAYED})`, { ...forward, validUntilTime: 1, relayData: { ...relayed, maxFeePerGas: 1, maxPriorityFeePerGas: 1, transactionCalldataGasUsed: 0 } }],
    ['a sponsored call of Gelato', 'SponsoredCallERC2771(uint256 chainId,address target,bytes data,address user,uint256 userNonce,uint256 userDeadline)', { ...gelato, user: ALICE, userNonce: 0, userDeadline: SOON }],
    ['a call of Gelato in any order', 'CallWithSyncFeeConcurrentERC2771(uint256 chainId,address target,bytes data,address user,bytes32 userSalt,uint256 userDeadline)', { ...gelato, user: ALICE, userSalt: WORD, userDeadline: SOON }],
    ['an older call of Gelato', 'SponsoredCall(uint256 chainId,address target,bytes data)', gelato],
    ['a forwarder of Gelato', 'ForwardRequest(uint256 chainId,address target,bytes data,address feeToken,uint256 paymentType,uint256 maxFee,uint256 gas,address sponsor,uint256 sponsorChainId,uint256 nonce,bool enforceSponsorNonce,bool enforceSponsorNonceOrdering)', { ...gelato, feeToken: ZERO, paymentType: 1, maxFee: 1, gas: 1, sponsor: ALICE, sponsorChainId: 1, nonce: 0, enforceSponsorNonce: true, enforceSponsorNonceOrdering: true }],
    ['a message of a Safe', 'SafeMessage(bytes message)', { message: WORD }],
    ['a delegation of ERC-7710', 'Delegation(address delegate,address delegator,bytes32 authority,Caveat[] caveats,uint256 salt)Caveat(address enforcer,bytes terms)', { delegate: BOB, delegator: ALICE, authority: WORD, caveats: [{ enforcer: BOB, terms: '0x' }], salt: 0 }],
    ['a spend permission of Coinbase', 'SpendPermission(address account,address spender,address token,uint160 allowance,uint48 period,uint48 start,uint48 end,uint256 salt,bytes extraData)', { account: ALICE, spender: BOB, token: USDC, allowance: 1, period: 1, start: 0, end: SOON, salt: 0, extraData: '0x' }],
    ['calls of another account of Calibur', CALIBUR, { batchedCall: { calls: [{ to: BOB, value: 1, data: '0x' }], revertOnFailure: true }, nonce: 0, keyHash: WORD, executor: BOB, deadline: SOON }],
  ] // prettier-ignore
  return all.map(([what, type, message]) => {
    return { what, typed: typed(type, message), class: 'power', needs: 'rule', sentence: 'power', warnings: ['power'] }
  })
}

const MOVING = new Set(['payment', 'allowance', 'order', 'power'])

suite('the table of classes', () => {
  for (const example of EXAMPLES)
    test(example.what, () => {
      const found = classOf(example.typed)
      assert.equal(found.class, example.class)
      assert.equal(found.needs, example.needs)
      assert.equal(found.problem, null)
      assert.equal(found.moves, MOVING.has(example.class))
      assert.deepEqual(callsOf(found), example.calls ?? [])
      assert.deepEqual(found.summary.warnings, example.warnings ?? [])
      assert.equal(found.extra, example.warnings?.includes('long') === true ? 'long' : null)
      if (example.sentence !== undefined) assert.equal(found.summary.sentence, example.sentence)
      if (example.moves !== undefined) assert.deepEqual(found.summary.moves, example.moves)
      assert.equal(found.summary.moves.length, found.calls.length)
      // The stored form is the same message.
      const message = read(example.typed)
      const again = read(messageText(message).content)
      assert.deepEqual(digestOf(again), digestOf(message))
      assert.deepEqual(classify(again, facts), found)
    })

  test('none of it is signed for another network, and nothing that moves money for no network or for all', () => {
    for (const { what, typed: source, class: name } of EXAMPLES) {
      const domain = source.domain as Record<string, unknown>
      for (const chainId of [0, 5, '0x2', 137]) invalid({ ...source, domain: { ...domain, chainId } }, '/domain/chainId', what) // prettier-ignore
      const { chainId: _, ...rest } = domain
      if (MOVING.has(name)) invalid({ ...source, domain: rest }, '/domain/chainId', what)
      else assert.ok(classOf({ ...source, domain: rest }).summary.warnings.includes('no-chain'), what)
    }
  })

  test('a type of a row is `other` if it has another name, or a field more', () => {
    for (const { what, typed: source, class: name } of EXAMPLES) {
      if (name === 'other') continue
      const types = source.types as Record<string, { name: string; type: string }[]>
      const primary = source.primaryType as string
      const renamed = { ...types, [`${primary}2`]: types[primary]! }
      delete renamed[primary]
      const found = classOf({ ...source, types: renamed, primaryType: `${primary}2` })
      assert.equal(found.class, 'other', what)
      const [extra, message] = [
        { name: 'extra', type: 'uint8' },
        { ...(source.message as object), extra: 1 },
      ]
      const longer = { ...source, types: { ...types, [primary]: [...types[primary]!, extra] }, message }
      assert.equal(classOf(longer).class, 'other', what)
    }
  })

  test('what counts at Permit2 only is `other` at another contract, and what counts at a contract is `other` without one', () => {
    for (const { what, typed: source, class: name } of EXAMPLES) {
      if (!MOVING.has(name) || name === 'power') continue
      const domain = source.domain as Record<string, unknown>
      const { verifyingContract: contract, ...rest } = domain
      assert.equal(classOf({ ...source, domain: rest }).class, 'other', what)
      if (contract === PERMIT2)
        assert.equal(classOf({ ...source, domain: { ...domain, verifyingContract: BOB } }).class, 'other', what)
    }
  })

  test('a vote of Snapshot counts in the domain of Snapshot only', () => {
    const source = EXAMPLES.find(({ what }) => what === 'a vote in Snapshot')!.typed
    assert.equal(classOf({ ...source, domain: { name: 'snapshot2', version: '0.1.4' } }).class, 'other')
  })

  test('what names its owner is signed by that owner only', () => {
    const owners = ['from', 'owner', 'holder', 'authorizer', 'maker', 'offerer', 'voter', 'user', 'sponsor']
    let count = 0
    for (const { what, typed: source } of EXAMPLES) {
      const message = source.message as Record<string, unknown>
      for (const owner of owners) {
        if (message[owner] === undefined) continue
        invalid({ ...source, message: { ...message, [owner]: BOB } }, `/message/${owner}`, what)
        count++
      }
    }
    assert.ok(count > 25)
    invalid(typed(BULK, { tree: [[seaport(), seaport()], [seaport(), seaport({ offerer: BOB })]] }, SEAPORT_16), '/message/tree/1/1/offerer', 'the last of a tree') // prettier-ignore
  })

  test('the contracts hash the same types', () => {
    // Constants of the deployed contracts' sources.
    const hashes: Record<string, string> = {
      'EIP-3009 transfer, as x402 pays with USDC': '7c7c6cdb67a18743f49ec6fa9b35f50d52ed05cbed4cc592e13b44501c1a2267',
      'EIP-3009 receive': 'd099cc98ef71107a616c4f0f941f04c322d8e254fe26b3c6668db87aae413de8',
      'EIP-3009 cancel': '158b0a9edf7a828aad02f63cd515c68ef2f50ba807396f6d12842833a1597429',
      'EIP-2612': '6e71edae12b1b97f4d1f60370fef10105fa2faae0126114a169c64845d6126c9',
      DAI: 'ea2aa0a1be11a07ed86d755c93467f4f82362b452371d1ba94d1715123511acb',
      'ERC-4494, a position of Uniswap': '49ecf333e5b8c95c40fdafc95c1ad136e8914a8fb55e9dc8bb01eaa83a2df9ad',
      'Permit2, a swap of Uniswap': 'f3841cd1ff0085026a6327b620b67997ce40f282c88a8e905a7a5626e310f3d0',
      'Permit2 batch': 'af1b0d30d2cab0380e68f0689007e3254993c596f2fdd0aaa7f4d04f79440863',
      'Permit2 transfer': '939c21a48a8dbe3a9a2404a1d46691e4d39f6583d6ec6b35714604c986d80106',
      'Permit2 batch transfer, one of it unlimited': 'fcf35f5ac6a2c28868dc44c302166470266239195f02b0ee408334829333b766',
      'a listing at OpenSea': 'fa445660b7e21515a59617fcd68910b487aa5808b8abda3d78bc85df364b2c2f',
      'CoW Swap': 'd5a25ba2e97094ad7d83dc28a6572da797d6b3e7fc6663bd93efb789fc17e489',
      '0x limit order': 'ce918627cb55462ddbb85e73de69a8b322f2bc88f4507c52fcad6d4c33c29d49',
      '0x RFQ order': 'e593d3fdfa8b60e5e17a1b2204662ecbe15c23f2084b9ad5bae40359540a7da9',
      '0x OTC order': '2f754524de756ae72459efbe1ec88c19a745639821de528ac3fb88f9e65e35c8',
      ERC20Votes: 'e48329057bfd03d55e49b547132e39cffd9c1820ad7b9d4c5307691425d15adf',
      'an operation of ERC-4337': '29a0bca4af4be3421398da00295e58e6d7de38cb492214754cb6a47507dd6f8e',
      'a forwarder of OpenZeppelin 4': 'dd8f4b70b0f4393e889bd39128a30628a78b61816a9eb8199759e7a349657e48',
      'a transaction of a Safe': 'bb8310d486368db6bd6f849402fdd73ad53d316b5a4b2644ad6efe0f941286d8',
      'a transaction of an old Safe': '14d461bc7412367e924637b363c7bf29b8f47e2f84869f4426e5633d8af47b20',
      'a message of a Safe': '60b3cbf8b4a223d68d641b3b6ddf9a298e7f33710cf3d3a9d1146b5a6150fbca',
      'a delegation of ERC-7710': '88c1d2ecf185adf710588203a5f263f0ff61be0d33da39792cde19ba9aa4331e',
      'a spend permission of Coinbase': 'c9fa0f0252014cf89ab0539e3bb3adcb76f93e6bb6494e8cc61c14e2761ee2e4',
    }
    for (const [what, hash] of Object.entries(hashes)) {
      const { type } = classOf(EXAMPLES.find((example) => example.what === what)!.typed)
      assert.equal(keccak(Buffer.from(type!)).toString('hex'), hash, what)
    }
  })

  test('Polygon’s meta-transactions name their network in the salt', () => {
    const source = EXAMPLES.find(({ what }) => what === 'a meta-transaction')!.typed
    const domain = (chainId: number) => ({ name: 'USD Coin (PoS)', version: '1', verifyingContract: USDC, salt: `0x${chainId.toString(16).padStart(64, '0')}` }) // prettier-ignore
    assert.equal(classOf({ ...source, domain: domain(1) }).needs, 'rule')
    invalid({ ...source, domain: domain(137) }, '/domain/chainId', 'another network')
  })
})

function invalid(typedData: unknown, pointer: string, what: string): void {
  assert.throws(
    () => classOf(typedData),
    (error) => error instanceof MessageInvalid && error.code === 'invalid_typed_data' && error.pointer === pointer,
    what,
  )
}

suite('what nothing allows', () => {
  const calls = [{ to: hex(BOB), value: 1n, data: Buffer.from('a9059cbb', 'hex') }]
  const operation = (dispatcher: Buffer) => ({
    ...{ chainId: 1, account: hex(ALICE), dispatcher, space: hex(USDC), sequence: 5n, calls, gasLimit: 100_000 },
    deadline: SOON,
  })
  const own = { name: 'Chatelaine', version: '1', chainId: 1, verifyingContract: ALICE }
  const asText = calls.map(({ to, value, data }) => ({ to: `0x${to.toString('hex')}`, value: value.toString(), data: `0x${data.toString('hex')}` })) // prettier-ignore
  const id = `0x${USDC.slice(2)}${'5'.padStart(24, '0')}`
  const message = { dispatcher: `0x${GAS_PAIRS.chatelaine.dispatcher.toString('hex')}`, id, calls: asText, gasLimit: 100_000, deadline: SOON } // prettier-ignore

  const isNever = (source: unknown, what: string) => {
    const { needs, problem } = classOf(source)
    assert.equal(needs, 'never', what)
    assert.ok(problem !== null, what)
  }

  test('an operation of the account’s own delegate, although its digest would be right', () => {
    const source = typed(OPERATION, message, own)
    assert.deepEqual(
      typedDataDigest(readTypedData(source)),
      operationDigest(operation(GAS_PAIRS.chatelaine.dispatcher)),
    )
    isNever(source, 'as it is')
    isNever(typed(OPERATION, message, { ...own, name: 'Test' }), 'at the account under another name')
    isNever(typed(OPERATION, message, { ...own, verifyingContract: BOB }), 'of another account')
    isNever(typed(OPERATION, message, { name: 'Test', verifyingContract: BOB }), 'anywhere')
  })

  test('calls of the account’s own Calibur', () => {
    const salt = `0x${GAS_PAIRS.calibur.delegate.toString('hex').padStart(64, '0')}`
    const batch = { batchedCall: { calls: asText, revertOnFailure: true }, nonce: 0, keyHash: `0x${'00'.repeat(32)}`, executor: BOB, deadline: SOON } // prettier-ignore
    isNever(typed(CALIBUR, batch, { ...own, name: 'Calibur', version: '1.0.0', salt }), 'as it is')
  })

  test('every type of a domain whose contract is the account itself', () => {
    for (const { what, typed: source } of EXAMPLES) {
      // At another contract, what counts at Permit2 only is something else: it is no less refused.
      isNever({ ...source, domain: { ...own, name: 'Test' } }, what)
      isNever({ ...source, domain: { ...own, verifyingContract: BOB } }, `${what}, by the name of ours`)
    }
    isNever(typed('PersonalSign(bytes prefixed)', { prefixed: '0x00' }, own), 'a text in its nested form')
  })

  test('the nested form of other typed data, which the account’s code takes for a permit', () => {
    const nested = `TypedDataSign(Permit contents,string name,string version,uint256 chainId,address verifyingContract,bytes32 salt)${PERMIT}`
    const contents = permit({ value: maxUint256.toString() })
    isNever(typed(nested, { contents, ...own, salt: WORD }), 'as ERC-7739 has it')
    isNever(typed(nested.replace('Permit contents', 'Permit anything'), { anything: contents, ...own, salt: WORD }), 'with another name') // prettier-ignore
  })
})

test('a permit inside another message is no permit, and needs a user', () => {
  for (const [type, message] of [
    [`Wrapper(Permit permit)${PERMIT}`, { permit: permit() }],
    [`Wrapper(Permit[][2] permits)${PERMIT}`, { permits: [[permit()], []] }],
    [`Permit(Permit2 permit)${PERMIT.replace('Permit(', 'Permit2(')}`, { permit: permit() }],
    ['Permit(address owner,address spender,uint256 value,uint256 deadline,uint256 nonce)', permit()],
    ['Permit(address owner,address spender,uint256 value,uint256 nonce,bytes32 deadline)', permit({ deadline: WORD })],
    ['Permit(address owner,address spender,uint128 value,uint256 nonce,uint256 deadline)', permit()],
  ] as const) {
    const found = classOf(typed(type, message))
    assert.deepEqual([found.class, found.needs, found.calls, found.moves], ['other', 'approval', [], false], type)
    assert.deepEqual(found.summary.warnings, ['unknown'])
  }
})

test('an end that no date can hold is none, whatever message or call names it', () => {
  const last = 8_640_000_000_000n
  const untilOf = (until: bigint) => {
    const text = until.toString()
    return [
      typed(SINGLE, single({ expiration: text }), AT_PERMIT2),
      typed(`PermitTransferFrom(${FROM})${PERMITTED}`, { ...permitted, deadline: text }, AT_PERMIT2),
      typed(SEAPORT, seaport({ endTime: text }), SEAPORT_16),
    ].map((source) => classOf(source).summary.moves[0]!.until)
  }
  assert.deepEqual(untilOf(last), Array(3).fill(Number(last)))
  assert.equal(new Date(Number(last) * 1_000).toISOString(), '+275760-09-13T00:00:00.000Z')
  for (const until of [last + 1n, 2n ** 48n - 1n]) assert.deepEqual(untilOf(until), Array(3).fill(null))
})

test('a hash by whatever name is typed data that nobody knows', () => {
  for (const type of ['CoinbaseSmartWalletMessage(bytes32 hash)', 'Kernel(bytes32 hash)']) {
    const found = classOf(typed(type, { hash: WORD }))
    assert.deepEqual([found.class, found.needs, found.summary.warnings], ['other', 'approval', ['unknown']], type)
  }
})

test('a batch that allows nothing is refused', () => {
  const batches: [type: string, message: object][] = [
    [`PermitBatch(PermitDetails[] details,address spender,uint256 sigDeadline)${DETAILS}`, { details: [], spender: BOB, sigDeadline: SOON }],
    [`PermitBatchTransferFrom(${BATCH_FROM})${PERMITTED}`, { ...permitted, permitted: [] }],
  ] // prettier-ignore
  for (const [type, message] of batches) invalid(typed(type, message, AT_PERMIT2), '/message', type)
  // An order may ask for something and offer nothing: a user decides.
  const order = typed(`PermitBatchWitnessTransferFrom(${BATCH_FROM},bytes32 witness)${PERMITTED}`, { ...permitted, permitted: [], witness: WORD }, AT_PERMIT2) // prettier-ignore
  assert.deepEqual([classOf(order).class, classOf(order).needs], ['order', 'approval'])
})

test('whatever is changed in a message, it is classified or refused with its place, and what is stored is the same message', () => {
  const whole = randomOf(7)
  const values = [null, '', 0, -1, '0x', [], {}, true, 'uint256', '[]', ALICE, WORD, 2 ** 60, 'Permit', '__proto__']
  const counts = { refused: 0, classified: 0 }
  for (let round = 0; round < 3_000; round++) {
    let text = JSON.stringify(EXAMPLES[whole(EXAMPLES.length)]!.typed)
    for (let change = whole(3); change >= 0; change--) {
      const parts = text.split(/(?<=[:,[{}\]])/)
      const at = whole(parts.length)
      if (whole(2) === 0) parts.splice(at, 1, parts[whole(parts.length)]!)
      else parts[at] = parts[at]!.replace(/"[^"]*"|\d+/, () => JSON.stringify(values[whole(values.length)]))
      text = parts.join('')
    }
    try {
      const message = read(text)
      const found = classify(message, facts)
      assert.deepEqual(digestOf(read(messageText(message).content)), digestOf(message))
      if (found.needs === 'token') assert.ok(found.class === 'payment' || found.class === 'allowance', text)
      counts.classified++
    } catch (error) {
      assert.ok(error instanceof MessageInvalid, `${text}: ${String(error)}`)
      counts.refused++
    }
  }
  assert.ok(counts.refused > 500 && counts.classified > 100, JSON.stringify(counts))
})
