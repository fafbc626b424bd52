import assert from 'node:assert/strict'
import type { SignedOperation } from './dispatch.ts'
import { executeData, operationDigest, type GasOperation, type AccountSignature } from '../../src/gas/operation.ts'
import { quantityOf, type Hex } from '../../src/ids.ts'
import { decodeEventLog } from 'viem'
import { failed, words, type Scenario } from './scenario.ts'
import { accountOf, artefact, bytesOf, ETHER, hexOf, sign, type Account, type Sent, type Stage } from './stage.ts'
import { typedDigest } from './typed.ts'

/** Who called the target, from where, with what, in the order of the calls. */
function seen({ logs }: Sent): { sender: string; origin: string; value: bigint }[] {
  const { abi } = artefact('GasTarget')
  return logs.flatMap(({ topics, data }) => {
    try {
      const { eventName, args } = decodeEventLog({ abi, topics: topics as [Hex], data })
      const { sender, origin, value } = args as unknown as { sender: string; origin: string; value: bigint }
      return eventName === 'Seen' ? [{ sender: sender.toLowerCase(), origin: origin.toLowerCase(), value }] : []
    } catch {
      return []
    }
  })
}

const alteredOperation = (signed: SignedOperation, changes: Partial<GasOperation>): SignedOperation => ({
  ...signed,
  operation: { ...signed.operation, ...changes },
})

/** Who may have what done. */
export const authority: readonly Scenario[] = [
  [
    'the target sees the account as the sender, and the account needs no coin',
    async (stage) => {
      const alice = await stage.user('alice')
      assert.equal(await stage.balanceOf(alice), 0n)
      const sent = await stage.dispatch([await stage.operation(alice, [stage.on('ping')])])
      assert.deepEqual(words(sent), ['Done'])
      assert.deepEqual(seen(sent), [{ sender: alice.hex, origin: stage.sponsor.hex, value: 0n }])
      assert.equal(sent.outcomes[0]!.account, alice.hex)
      assert.equal(await stage.balanceOf(alice), 0n)
    },
  ],
  [
    'of many operations in one transaction each succeeds or fails alone, and each has one event with its id and account',
    async (stage) => {
      const users = await stage.users('crowd', 6)
      const reverting = stage.on('failWith', ['0x1234'])
      const calls = [
        stage.on('ping'),
        reverting,
        stage.on('burn'),
        stage.on('bomb', [200_000n, true]),
        stage.on('ping'),
      ]
      const operations = await Promise.all(
        [...calls, stage.on('ping')].map((call, index) => stage.operation(users[index]!, [call])),
      )
      const sent = await stage.dispatch(operations)
      const bomb = failed(0, `0x${'00'.repeat(256)}`)
      assert.deepEqual(words(sent), ['Done', failed(0, '0x1234'), failed(0, '0x'), bomb, 'Done', 'Done'])
      assert.deepEqual(
        sent.outcomes.map(({ account }) => account),
        users.map(({ hex }) => hex),
      )
      const ids = operations.map(({ operation: { space, sequence } }) => hexOf(space) + sequence.toString(16).padStart(24, '0')) // prettier-ignore
      assert.deepEqual(sent.outcomes.map(({ id }) => id), ids) // prettier-ignore
      assert.deepEqual(seen(sent).map(({ sender }) => sender), [users[0]!, users[4]!, users[5]!].map(({ hex }) => hex)) // prettier-ignore
    },
  ],
  [
    'an operation is done once: sent again, by whichever sponsor, nothing happens',
    async (stage) => {
      const alice = await stage.user('alice')
      const operation = await stage.operation(alice, [stage.on('ping')])
      assert.deepEqual(words(await stage.dispatch([operation, operation])), ['Done', 'Skipped'])
      assert.deepEqual(words(await stage.dispatch([operation])), ['Skipped'])
      assert.deepEqual(words(await stage.dispatch([operation], { from: stage.otherSponsor })), ['Skipped'])
      assert.equal(await stage.pings(), 1n)
    },
  ],
  [
    'the theft that was reproduced: what failed for want of money is not done later, when there is some',
    async (stage) => {
      const [alice, mallory] = await stage.users('pair', 2)
      const operation = await stage.operation(alice!, [stage.transfer(mallory!, 5n)])
      const first = await stage.dispatch([operation])
      assert.match(words(first)[0]!, /^Failed CallFailed 0 0xe450d38c/)
      await stage.mint(alice!, 5n)
      for (const from of [stage.sponsor, stage.otherSponsor])
        assert.deepEqual(words(await stage.dispatch([operation], { from })), ['Skipped'])
      assert.equal(await stage.held(alice!), 5n)
    },
  ],
  [
    'what is signed for another network does nothing on this one',
    async (stage) => {
      const alice = await stage.user('alice')
      const operation = await stage.operation(alice, [stage.on('ping')], { chainId: stage.chainId + 1 })
      const here = alteredOperation(operation, { chainId: stage.chainId })
      assert.deepEqual(words(await stage.dispatch([here])), ['Failed WrongSignature'])
      // Nor does what names no network: chain id 0 is built by hand, since nothing here signs it.
      const { operation: plain } = await stage.operation(alice, [stage.on('ping')])
      const digest = typedDigest({ ...plain, chainId: 0 })
      const signed = { operation: plain, signature: sign(digest, alice.key) }
      assert.deepEqual(words(await stage.dispatch([signed])), ['Failed WrongSignature'])
      assert.equal(await stage.pings(), 0n)
    },
  ],
  [
    'what one account signed is not done by another',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const operation = await stage.operation(alice!, [stage.on('ping')])
      const moved = alteredOperation(operation, { account: bob!.address })
      assert.deepEqual(words(await stage.dispatch([moved])), ['Failed WrongSignature'])
      assert.equal(await stage.pings(), 0n)
    },
  ],
  [
    'nothing of what was signed can be altered',
    async (stage) => {
      const alice = await stage.user('alice')
      const signed = await stage.operation(alice, [stage.on('ping'), stage.call(stage.target, Buffer.of(1, 2, 3, 4))])
      const { calls, gasLimit, deadline } = signed.operation
      const [ping, other] = calls as [(typeof calls)[0], (typeof calls)[0]]
      const changes: Partial<GasOperation>[] = [
        { gasLimit: gasLimit + 1 },
        { deadline: deadline + 1_000 },
        { calls: [ping] },
        { calls: [other, ping] },
        { calls: [ping, { ...other, to: stage.token }] },
        { calls: [ping, { ...other, value: 1n }] },
        { calls: [ping, { ...other, data: Buffer.of(1, 2, 3) }] },
        { calls: [ping, other, ping] },
      ]
      for (const change of changes) {
        // Each has an id of its own, as it would after the first try.
        const again = await stage.operation(alice, calls)
        const sent = await stage.dispatch([alteredOperation(again, change)])
        assert.deepEqual(words(sent), ['Failed WrongSignature'], JSON.stringify(Object.keys(change)))
      }
      const { sequence } = (await stage.operation(alice, calls)).operation
      assert.deepEqual(words(await stage.dispatch([alteredOperation(signed, { sequence })])), ['Failed WrongSignature'])
      assert.equal(await stage.pings(), 0n)
    },
  ],
  [
    'an operation is of one space: a sponsor of another cannot send it as one of theirs',
    async (stage) => {
      const alice = await stage.user('alice')
      const { stranger, dispatcher } = stage
      await stage.send(stranger, dispatcher, stage.encode('Dispatcher', 'setSponsor', [stranger.hex, true]))
      const operation = await stage.operation(alice, [stage.on('ping')])
      const moved = alteredOperation(operation, { space: stranger.address })
      assert.deepEqual(words(await stage.dispatch([moved], { from: stranger })), ['Failed WrongSignature'])
      // Nor has it used up the id of the other space.
      assert.equal(await stage.isUsed(operation), false)
      assert.deepEqual(words(await stage.dispatch([operation])), ['Done'])
    },
  ],
  [
    'an operation is for one dispatcher: a second one, with ids of its own, cannot have it done again',
    async (stage) => {
      const alice = await stage.user('alice')
      const elsewhere = accountOf('another dispatcher').address
      const signed = await stage.operation(alice, [stage.on('ping')], { dispatcher: elsewhere })
      const here = alteredOperation(signed, { dispatcher: stage.dispatcher })
      assert.deepEqual(words(await stage.dispatch([here])), ['Failed WrongSignature'])
    },
  ],
  [
    'after the deadline nothing is done, in its last second everything',
    async (stage) => {
      const alice = await stage.user('alice')
      const deadline = (await stage.now()) + 100
      const [inTime, late] = [
        await stage.operation(alice, [stage.on('ping')], { deadline }),
        await stage.operation(alice, [stage.on('ping')], { deadline }),
      ]
      await stage.rpc('evm_setNextBlockTimestamp', deadline)
      assert.deepEqual(words(await stage.dispatch([inTime])), ['Done'])
      await stage.rpc('evm_setNextBlockTimestamp', deadline + 1)
      assert.deepEqual(words(await stage.dispatch([late])), ['Failed Expired'])
      assert.equal(await stage.pings(), 1n)
    },
  ],
  [
    'of the two signatures that mean the same only the one with the low s counts',
    async (stage) => {
      const alice = await stage.user('alice')
      const { operation, signature } = await stage.operation(alice, [stage.on('ping')])
      const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
      const high = order - BigInt(hexOf(signature.s))
      const twin: AccountSignature = {
        r: signature.r,
        s: bytesOf(quantityOf(high).padEnd(66)),
        recovery: signature.recovery === 0 ? 1 : 0,
      }
      // As bytes, because what packs operations refuses it. EIP-2098 has no bit for an s of 2^255 and more.
      const plain = Buffer.concat([twin.r, twin.s, Buffer.of(27 + twin.recovery)])
      const digest = operationDigest(operation)
      assert.equal(await asked(stage, alice, digest, plain), '0xffffffff')
      const low = Buffer.concat([signature.r, signature.s, Buffer.of(27 + signature.recovery)])
      assert.equal(await asked(stage, alice, digest, low), '0x1626ba7e')
    },
  ],
  [
    'a signature that is none, of zeros or of noise, is nobody’s',
    async (stage) => {
      const alice = await stage.user('alice')
      const noises = [0x00, 0x01, 0x7f].map((byte) => ({ r: Buffer.alloc(32, byte), s: Buffer.alloc(32, byte) }))
      for (const noise of noises) {
        const { operation } = await stage.operation(alice, [stage.on('ping')])
        const sent = await stage.dispatch([{ operation, signature: { ...noise, recovery: 0 } }])
        assert.deepEqual(words(sent), ['Failed WrongSignature'])
      }
      assert.equal(await stage.pings(), 0n)
    },
  ],
  [
    'only sponsors of a space send its operations, and what is refused uses up nothing',
    async (stage) => {
      const alice = await stage.user('alice')
      const operation = await stage.operation(alice, [stage.on('ping')])
      for (const from of [stage.stranger, stage.admin])
        assert.equal((await stage.dispatch([operation], { from })).status, '0x0')
      const { sponsor, dispatcher, admin } = stage
      await stage.send(admin, dispatcher, stage.encode('Dispatcher', 'setSponsor', [sponsor.hex, false]))
      assert.equal((await stage.dispatch([operation])).status, '0x0')
      assert.equal(await stage.isUsed(operation), false)
      assert.deepEqual(words(await stage.dispatch([operation], { from: stage.otherSponsor })), ['Done'])
    },
  ],
  [
    'nobody sets the sponsors of a space but its own address',
    async (stage) => {
      const { stranger, sponsor, dispatcher, admin } = stage
      for (const from of [stranger, sponsor])
        await stage.send(from, dispatcher, stage.encode('Dispatcher', 'setSponsor', [stranger.hex, true]))
      assert.equal(await stage.read(dispatcher, 'Dispatcher', 'isSponsor', [admin.hex, stranger.hex]), false)
      assert.equal(await stage.read(dispatcher, 'Dispatcher', 'isSponsor', [admin.hex, sponsor.hex]), true)
    },
  ],
  [
    'only the dispatcher calls the delegate: no stranger, no sponsor, not the account itself',
    async (stage) => {
      const alice = await stage.user('alice')
      await stage.give(alice, ETHER)
      const { operation, signature } = await stage.operation(alice, [stage.on('ping')])
      const data = executeData(operation, signature)
      for (const from of [stage.stranger, stage.sponsor, stage.admin, alice])
        for (const to of [alice.address, stage.delegate])
          assert.equal((await stage.send(from, to, data, { gas: 400_000 })).status, '0x0')
      assert.equal(await stage.pings(), 0n)
    },
  ],
  [
    'an account without our code, or with someone else’s, is not called: a call there would succeed and do nothing',
    async (stage) => {
      const plain = accountOf('never delegated')
      const yes = await stage.deploy(artefact('Yes').bytecode)
      const foreign = accountOf('delegated elsewhere')
      const authorizations = [await stage.authorize(foreign, { address: yes })]
      const twin = accountOf('delegated to a twin')
      const otherDispatcher = await stage.deploy(artefact('Dispatcher').bytecode)
      const other = bytesOf(await stage.read<Hex>(otherDispatcher, 'Dispatcher', 'delegate'))
      authorizations.push(await stage.authorize(twin, { address: other }))
      await stage.send(stage.sponsor, stage.sponsor.address, Buffer.alloc(0), { authorizations })
      const contract = { ...plain, address: stage.target, hex: hexOf(stage.target) }
      for (const account of [plain, foreign, twin, contract]) {
        const sent = await stage.dispatch([await stage.operation(account, [stage.on('ping')])])
        assert.deepEqual(words(sent), ['Failed NotDelegated'])
      }
      assert.equal(await stage.pings(), 0n)
    },
  ],
  [
    'a stale authorization is told by the event, though the transaction succeeds; a fresh one works in the same transaction',
    async (stage) => {
      const alice = accountOf('delegates as she goes')
      const stale = [await stage.authorize(alice, { nonce: 7 })]
      const sent = await stage.dispatch([await stage.operation(alice, [stage.on('ping')])], { authorizations: stale })
      assert.equal(sent.status, '0x1')
      assert.deepEqual(words(sent), ['Failed NotDelegated'])
      const fresh = [await stage.authorize(alice)]
      const again = await stage.dispatch([await stage.operation(alice, [stage.on('ping')])], { authorizations: fresh })
      assert.deepEqual(words(again), ['Done'])
      assert.deepEqual(seen(again), [{ sender: alice.hex, origin: stage.sponsor.hex, value: 0n }])
    },
  ],
]

/** What isValidSignature says. */
export async function asked(stage: Stage, account: Account, hash: Uint8Array, signature: Uint8Array): Promise<Hex> {
  return stage.read<Hex>(account.address, 'Delegate', 'isValidSignature', [hexOf(hash), hexOf(signature)])
}
