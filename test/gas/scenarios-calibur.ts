import assert from 'node:assert/strict'
import { encodeAbiParameters, encodeErrorResult, encodeFunctionData, keccak256, type Abi } from 'viem'
import { readGasContracts } from '../../src/gas/contracts.ts'
import { executeData, operationDigest, type GasOperation } from '../../src/gas/operation.ts'
import type { Hex } from '../../src/ids.ts'
import { dispatchData, type SignedOperation } from './dispatch.ts'
import { words, type Scenario } from './scenario.ts'
import { accountOf, artefact, bytesOf, ETHER, flat, hexOf, sign, type Account, type Stage } from './stage.ts'

const { abi } = artefact('CaliburStandIn')
const failedCall = (reason: Hex): string => `Failed CallFailed ${reason}`

const executing = ({ operation, signature }: SignedOperation): Hex => hexOf(executeData(operation, signature))
const ask = async ({ rpc }: Stage, from: Hex, to: Hex, data: Hex): Promise<Hex | 'refused'> =>
  rpc<Hex>('eth_call', { from, to, data }, 'latest').catch(() => 'refused' as const)

/** What docs/reference/gas-contracts.md says of operations of accounts that delegated to Calibur. */
export const calibur: readonly Scenario[] = [
  [
    'each succeeds or fails alone, has one event, and the target sees the account',
    async (stage) => {
      const [alice, bob, carol] = (await stage.users('three', 3)) as [Account, Account, Account]
      const sent = await stage.dispatch([
        await stage.operation(alice, [stage.on('ping'), stage.on('ping')]),
        await stage.operation(bob, [stage.on('ping'), stage.on('failWith', ['0x1234'])]),
        await stage.operation(carol, [stage.on('ping')]),
      ])
      assert.deepEqual(words(sent), ['Done', failedCall('0x1234'), 'Done'])
      assert.deepEqual(sent.outcomes.map(({ account }) => account), [alice.hex, bob.hex, carol.hex]) // prettier-ignore
      assert.equal(await stage.pings(), 3n, 'all calls of an operation are done, or none')
    },
  ],
  [
    'what failed once is never done, by whomever it is sent, and what was done is not done again',
    async (stage) => {
      const alice = await stage.user('alice')
      // It fails for want of coins that the account has later.
      const paying = await stage.operation(alice, [stage.on('ping', [], 5n)])
      assert.deepEqual(words(await stage.dispatch([paying])), [failedCall('0x')])
      await stage.give(alice, ETHER)
      assert.deepEqual(words(await stage.dispatch([paying])), ['Skipped'])
      assert.deepEqual(words(await stage.dispatch([paying], { from: stage.otherSponsor })), ['Skipped'])
      // Calibur has not used its nonce: but for who may execute it, anybody could have it done now.
      for (const from of [stage.stranger.hex, stage.sponsor.hex, alice.hex])
        assert.equal(await ask(stage, from, alice.hex, executing(paying)), 'refused')
      assert.notEqual(await ask(stage, hexOf(stage.dispatcher), alice.hex, executing(paying)), 'refused', 'by the dispatcher alone') // prettier-ignore
      const done = await stage.operation(alice, [stage.on('ping')])
      assert.deepEqual(words(await stage.dispatch([done, done])), ['Done', 'Skipped'])
      assert.equal(await stage.pings(), 1n)
    },
  ],
  [
    'nothing of what was signed can be altered, and the deadline holds to its last second',
    async (stage) => {
      const [alice, bob] = (await stage.users('pair', 2)) as [Account, Account]
      const calls = [stage.on('ping'), stage.transfer(bob, 0n)]
      const altered: Partial<GasOperation>[] = [
        { sequence: 5n },
        { gasLimit: 299_999 },
        { gasLimit: 300_001 },
        { deadline: (await stage.now()) + 10_000 },
        { calls: [...calls].reverse() },
        { calls: [calls[0]!] },
        { calls: [...calls, calls[0]!] },
        { calls: [{ ...calls[0]!, value: 1n }, calls[1]!] },
        { calls: [{ ...calls[0]!, to: stage.token }, calls[1]!] },
        { calls: [{ ...calls[0]!, data: Buffer.alloc(4) }, calls[1]!] },
        { account: bob.address },
      ]
      for (const change of altered) {
        // Each has an id of its own, which nothing has used.
        const { operation, signature } = await stage.operation(alice, calls)
        const sent = await stage.dispatch([{ operation: { ...operation, ...change }, signature }])
        assert.deepEqual(words(sent), ['Failed InvalidSignature'], JSON.stringify(Object.keys(change)))
      }
      for (const wrong of [{ chainId: 1 }, { dispatcher: Buffer.alloc(20, 1) }, { space: alice.address }]) {
        const { operation } = await stage.operation(alice, calls)
        const signature = sign(operationDigest({ ...operation, ...wrong }), alice.key)
        assert.deepEqual(words(await stage.dispatch([{ operation, signature }])), ['Failed InvalidSignature'])
      }
      const now = await stage.now()
      assert.deepEqual(words(await stage.dispatch([await stage.operation(alice, calls, { deadline: now - 1 })])), ['Failed SignatureExpired']) // prettier-ignore
      assert.deepEqual(words(await stage.dispatch([await stage.operation(alice, calls, { deadline: now + 60 })])), ['Done']) // prettier-ignore
    },
  ],
  [
    'an account is called only while it has delegated to Calibur, and by no other dispatcher of ours',
    async (stage) => {
      const ours = readGasContracts()
      await stage.rpc('hardhat_setCode', ours.dispatcher, ours.dispatcherCode)
      await stage.rpc('hardhat_setCode', ours.delegate, ours.delegateCode)
      const alice = await stage.user('alice')
      const stranger = await stage.operation(accountOf('who never delegated'), [stage.on('ping')])
      assert.deepEqual(words(await stage.dispatch([stranger])), ['Failed NotDelegated'])
      const signed = await stage.operation(alice, [stage.on('ping')])
      // Our own dispatcher knows it as no delegate of its own.
      await stage.send(stage.admin, bytesOf(ours.dispatcher), stage.encode('Dispatcher', 'setSponsor', [stage.sponsor.hex, true])) // prettier-ignore
      const { logs } = await stage.send(stage.sponsor, bytesOf(ours.dispatcher), dispatchData([signed]))
      assert.equal(logs.length, 1)
      assert.equal(await stage.pings(), 0n)
      // Moved on to our own delegate, it is none of this one's any more.
      const moved = await stage.authorize(alice, { address: bytesOf(ours.delegate) })
      await stage.send(stage.sponsor, stage.sponsor.address, Buffer.alloc(0), { authorizations: [moved] })
      assert.deepEqual(words(await stage.dispatch([signed])), ['Failed NotDelegated'])
    },
  ],
  [
    'calls that cannot be read fail by themselves, and what is beside them is done',
    async (stage) => {
      const [alice, bob] = (await stage.users('pair', 2)) as [Account, Account]
      const whole = Buffer.concat([Buffer.of(1), stage.target, Buffer.of(0), Buffer.from([0, 0, 4]), stage.encode('GasTarget', 'ping')]) // prettier-ignore
      const wrong = [
        Buffer.alloc(0),
        Buffer.of(0),
        Buffer.of(1),
        ...Array.from({ length: whole.length - 1 }, (_, cut) => whole.subarray(0, cut + 1)),
        Buffer.concat([whole, Buffer.of(0)]),
        Buffer.concat([Buffer.of(2), whole.subarray(1)]),
        Buffer.concat([Buffer.of(255), whole.subarray(1)]),
        Buffer.concat([Buffer.of(1), stage.target, Buffer.of(33), Buffer.alloc(33), Buffer.from([0, 0, 0])]),
        Buffer.concat([whole.subarray(0, 22), Buffer.from([255, 255, 255]), whole.subarray(25)]),
      ]
      const beside = await stage.operation(bob, [stage.on('ping')])
      const { operation, signature } = await stage.operation(alice, [stage.on('ping')])
      const packed = packedOf({ operation, signature })
      for (const [index, calls] of wrong.entries()) {
        const head = Buffer.from(packed.subarray(0, 108))
        head.writeUInt32BE(index + 1, 28)
        head.writeUIntBE(calls.length, 105, 3)
        const other = { ...beside, operation: { ...beside.operation, sequence: 90_000n + BigInt(index) } }
        other.signature = sign(operationDigest(other.operation), bob.key)
        const sent = await stage.send(
          stage.sponsor,
          stage.dispatcher,
          dispatching(stage, [head, calls, packedOf(other)]),
        )
        assert.deepEqual(words(sent), ['Failed Malformed', 'Done'], `${index}: ${calls.toString('hex')}`)
      }
    },
  ],
  [
    'calldata that is cut off, or longer than it says, is refused whole, and nothing is used up',
    async (stage) => {
      const [alice, bob] = (await stage.users('pair', 2)) as [Account, Account]
      const operations = [await stage.operation(alice, [stage.on('ping')]), await stage.operation(bob, [stage.on('ping')])] // prettier-ignore
      const whole = Buffer.concat(operations.map(packedOf))
      const length = packedOf(operations[0]!).length
      for (const cut of [1, 20, 107, 108, length - 1, length + 1, whole.length - 1]) {
        const sent = await stage.send(stage.sponsor, stage.dispatcher, dispatching(stage, [whole.subarray(0, cut)]))
        assert.equal(sent.status, '0x0', `${cut} bytes`)
      }
      assert.deepEqual(words(await stage.dispatch(operations)), ['Done', 'Done'])
    },
  ],
  [
    'every width of a value, any data and twenty calls arrive as they were signed',
    async (stage) => {
      const alice = await stage.user('alice')
      await stage.give(alice, 10n ** 30n)
      const values = [0n, 1n, 255n, 256n, 65_535n, 65_536n, 2n ** 64n, 10n ** 29n]
      const paid = await stage.dispatch([
        await stage.operation(alice, values.map((value) => stage.on('ping', [], value)), { gasLimit: 1_000_000 }), // prettier-ignore
      ])
      assert.deepEqual(words(paid), ['Done'])
      assert.equal(
        await stage.balanceOf({ hex: hexOf(stage.target) }),
        values.reduce((sum, one) => sum + one, 0n),
      )
      for (const size of [0, 1, 31, 32, 33, 5_000]) {
        const data = Buffer.alloc(size, 0xa7)
        const echo = stage.on('failWith', [hexOf(data)])
        const sent = await stage.dispatch([await stage.operation(alice, [echo], { gasLimit: 2_000_000 })])
        const reason = encodeErrorResult({ abi, errorName: 'CallFailed', args: [hexOf(data)] })
        // The first 356 bytes of what Calibur reverts with are told.
        assert.equal(sent.outcomes[0]!.reason, reason.slice(0, 2 + 2 * 356))
      }
      const many = await stage.operation(alice, Array.from({ length: 20 }, () => stage.on('ping')), { gasLimit: 1_500_000 }) // prettier-ignore
      assert.deepEqual(words(await stage.dispatch([many])), ['Done'])
      assert.equal(await stage.pings(), BigInt(values.length + 20))
    },
  ],
  [
    'an operation gets the gas that was signed, or nothing is used up; it burns no more',
    async (stage) => {
      const [alice, bob] = (await stage.users('pair', 2)) as [Account, Account]
      const burning = await stage.operation(alice, [stage.on('burn')], { gasLimit: 500_000 })
      const sent = await stage.dispatch([burning, await stage.operation(bob, [stage.on('ping')])])
      assert.deepEqual(sent.outcomes.map(({ kind }) => kind), ['Failed', 'Done']) // prettier-ignore
      assert.ok(sent.gasUsed > 500_000n && sent.gasUsed < 760_000n, String(sent.gasUsed))
      const large = await stage.operation(alice, [stage.on('burn')], { gasLimit: 6_000_000 })
      const short = await stage.dispatch([large], { gas: 6_080_000 })
      assert.equal(short.status, '0x0')
      assert.equal(await stage.isUsed(large), false)
      const bomb = await stage.operation(bob, [stage.on('bomb', [30_000n, true])], { gasLimit: 500_000 })
      const bombed = await stage.dispatch([bomb])
      assert.equal((bombed.outcomes[0]!.reason.length - 2) / 2, 356, 'of what is returned 356 bytes are told')
    },
  ],
  [
    'only sponsors of the space dispatch and cancel, and what was cancelled is not done',
    async (stage) => {
      const alice = await stage.user('alice')
      const signed = await stage.operation(alice, [stage.on('ping')])
      assert.equal((await stage.dispatch([signed], { from: stage.stranger })).status, '0x0')
      const data = stage.encode('CaliburDispatcher', 'cancel', [stage.admin.hex, [signed.operation.sequence]])
      assert.equal((await stage.send(stage.stranger, stage.dispatcher, data)).status, '0x0')
      assert.deepEqual(words(await stage.send(stage.sponsor, stage.dispatcher, data)), ['Cancelled'])
      assert.deepEqual(words(await stage.dispatch([signed])), ['Skipped'])
      assert.equal(await stage.pings(), 0n)
    },
  ],
  [
    'an operation that is sent again from within itself is not done twice',
    async (stage) => {
      const alice = await stage.user('alice')
      const { admin, dispatcher, target } = stage
      await stage.send(admin, dispatcher, stage.encode('CaliburDispatcher', 'setSponsor', [hexOf(target), true]))
      const inner = await stage.operation(alice, [stage.on('ping')], { sequence: 77n })
      const again = stage.on('forward', [hexOf(dispatcher), hexOf(dispatchData([inner]))])
      const outer = await stage.operation(alice, [again, stage.on('ping')], { sequence: 77n, gasLimit: 600_000 })
      assert.deepEqual(words(await stage.dispatch([outer])), ['Skipped', 'Done'])
      assert.equal(await stage.pings(), 1n)
    },
  ],
  [
    'coins are the account’s own, the dispatcher holds none, and the account takes coins and tokens',
    async (stage) => {
      const alice = await stage.user('alice')
      await stage.give(alice, ETHER)
      const before = await stage.balanceOf(stage.sponsor)
      const sent = await stage.dispatch([await stage.operation(alice, [stage.on('ping', [], 7n)])])
      assert.equal(before - (await stage.balanceOf(stage.sponsor)), sent.fee)
      assert.equal(await stage.balanceOf(alice), ETHER - 7n)
      assert.equal(await stage.balanceOf({ hex: hexOf(stage.dispatcher) }), 0n)
      await stage.send(stage.stranger, stage.target, stage.encode('GasTarget', 'payWithLittleGas', [alice.hex]), { value: 3n }) // prettier-ignore
      assert.equal(await stage.balanceOf(alice), ETHER - 4n)
      const data = encodeFunctionData({ abi: RECEIVER, functionName: 'onERC721Received', args: [alice.hex, alice.hex, 1n, '0x'] }) // prettier-ignore
      assert.match(await ask(stage, stage.stranger.hex, alice.hex, data), /^0x150b7a02/)
      const hash = keccak256('0x1234')
      const signature = hexOf(flat(sign(bytesOf(hash), alice.key)))
      const asked = encodeFunctionData({ abi, functionName: 'isValidSignature', args: [hash, signature] })
      assert.match(await ask(stage, stage.stranger.hex, alice.hex, asked), /^0x1626ba7e/)
    },
  ],
  [
    'an account that calls itself would let another key in: why the signer signs no such call',
    async (stage) => {
      const [alice, bob] = (await stage.users('pair', 2)) as [Account, Account]
      const publicKey = encodeAbiParameters([{ type: 'address' }], [stage.stranger.hex])
      const key = { keyType: 2, publicKey }
      const keyHash = keccak256(encodeAbiParameters([{ type: 'uint8' }, { type: 'bytes32' }], [2, keccak256(publicKey)])) // prettier-ignore
      const lettingIn = (to: Buffer) => [
        stage.call(to, bytesOf(encodeFunctionData({ abi, functionName: 'register', args: [key] }))),
        stage.call(to, bytesOf(encodeFunctionData({ abi, functionName: 'update', args: [keyHash, 1n << 200n] }))),
      ]
      const batch = { calls: [{ to: hexOf(stage.target), value: 0n, data: hexOf(stage.encode('GasTarget', 'ping')) }], revertOnFailure: true } // prettier-ignore
      const robbery = encodeFunctionData({ abi: abi.filter((item) => isOfOwner(item)), functionName: 'execute', args: [batch] }) // prettier-ignore
      for (const [account, to] of [
        [alice, alice.address],
        [bob, Buffer.alloc(20)],
      ] as const) {
        assert.equal(await ask(stage, stage.stranger.hex, account.hex, robbery), 'refused')
        const sent = await stage.dispatch([await stage.operation(account, lettingIn(to), { gasLimit: 900_000 })])
        assert.deepEqual(words(sent), ['Done'])
        assert.notEqual(await ask(stage, stage.stranger.hex, account.hex, robbery), 'refused')
      }
    },
  ],
  [
    'a hundred transfers of a token of a hundred accounts: what they take',
    async (stage) => {
      const users = await stage.users('hundred', 100)
      const shop = accountOf('a shop')
      for (const user of users) await stage.mint(user, 10n)
      const batch = () => Promise.all(users.map((user) => stage.operation(user, [stage.transfer(shop, 1n)], { gasLimit: 120_000 }))) // prettier-ignore
      await stage.dispatch(await batch(), { gas: 16_000_000 })
      const operations = await batch()
      const sent = await stage.dispatch(operations, { gas: 16_000_000 })
      assert.equal(sent.outcomes.filter(({ kind }) => kind === 'Done').length, 100)
      const [gas, bytes] = [Number(sent.gasUsed) / 100, dispatchData(operations).length / 100]
      assert.ok(gas <= 62_000, `${gas} gas each`)
      assert.ok(bytes <= 220, `${bytes} bytes each`)
      if (process.env.GAS_FIGURES === 'yes') console.log(`Calibur: ${gas} gas and ${bytes} bytes each`)
    },
  ],
]

const RECEIVER: Abi = [
  {
    ...{ type: 'function', name: 'onERC721Received', stateMutability: 'nonpayable' },
    inputs: ['address', 'address', 'uint256', 'bytes'].map((type) => ({ name: '', type })),
    outputs: [{ name: '', type: 'bytes4' }],
  },
]

/** `execute` is there twice: with a signature, and for the owner. */
const isOfOwner = (item: Abi[number]): boolean =>
  item.type === 'function' && item.name === 'execute' && item.inputs.length === 1

/** An operation as calldata has it. */
const packedOf = (signed: SignedOperation): Buffer => {
  const data = dispatchData([signed])
  return data.subarray(100, 100 + Number(BigInt(hexOf(data.subarray(68, 100)))))
}

function dispatching({ admin }: Stage, parts: Buffer[]): Buffer {
  const { abi: own } = artefact('CaliburDispatcher')
  return bytesOf(encodeFunctionData({ abi: own, functionName: 'dispatch', args: [admin.hex, hexOf(Buffer.concat(parts))] })) // prettier-ignore
}
