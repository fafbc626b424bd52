import assert from 'node:assert/strict'
import { dispatchData } from './dispatch.ts'
import type { Hex } from '../../src/ids.ts'
import { keccak } from '../../src/keccak.ts'
import { hashMessage, hashTypedData } from 'viem'
import { failed, words, type Scenario } from './scenario.ts'
import { asked } from './scenarios.ts'
import { accountOf, artefact, bytesOf, flat, hexOf, sign, type Account, type Stage } from './stage.ts'

const [VALID, INVALID] = ['0x1626ba7e', '0xffffffff']
const hash = (text: string): Buffer => keccak(Buffer.from(text))
const word = (value: bigint | number): Buffer => Buffer.from(BigInt(value).toString(16).padStart(64, '0'), 'hex')

const MAIL = 'Mail(address to,string contents)'
const mail = { to: `0x${'11'.repeat(20)}` as Hex, contents: 'hello' }
const appDomain = (stage: Stage) => ({ name: 'App', version: '2', chainId: stage.chainId, verifyingContract: hexOf(stage.target) }) // prettier-ignore
const ownDomain = ({ chainId }: Stage, { hex }: Account) => ({ name: 'Chatelaine', version: '1', chainId, verifyingContract: hex }) // prettier-ignore
const mailTypes = {
  Mail: [
    { name: 'to', type: 'address' },
    { name: 'contents', type: 'string' },
  ],
} as const

/** ERC-7739 as viem builds it: the app's domain, and a message that names the account. */
function nestedDigest(stage: Stage, account: Account, salt: Hex = `0x${'00'.repeat(32)}`): Buffer {
  const types = {
    TypedDataSign: [
      { name: 'contents', type: 'Mail' },
      { name: 'name', type: 'string' },
      { name: 'version', type: 'string' },
      { name: 'chainId', type: 'uint256' },
      { name: 'verifyingContract', type: 'address' },
      { name: 'salt', type: 'bytes32' },
    ],
    ...mailTypes,
  } as const
  const { chainId, ...domain } = ownDomain(stage, account)
  const message = { contents: mail, ...domain, chainId: BigInt(chainId), salt }
  return bytesOf(hashTypedData({ domain: appDomain(stage), types, primaryType: 'TypedDataSign', message }))
}

function separatorOf({ name, version, chainId, verifyingContract }: ReturnType<typeof appDomain>): Buffer {
  const type = hash('EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)')
  const address = Buffer.concat([Buffer.alloc(12), bytesOf(verifyingContract)])
  return keccak(Buffer.concat([type, hash(name), hash(version), word(chainId), address]))
}

const contentsHash = (): Buffer =>
  keccak(Buffer.concat([hash(MAIL), Buffer.alloc(12), bytesOf(mail.to), hash(mail.contents)]))

function wrap(stage: Stage, signature: Buffer, description = MAIL): Buffer {
  const length = Buffer.of(description.length >> 8, description.length & 0xff)
  return Buffer.concat([signature, separatorOf(appDomain(stage)), contentsHash(), Buffer.from(description), length])
}

/** What an account with this code is to others. */
export const account: readonly Scenario[] = [
  [
    'a plain signature of 65 bytes is the account’s, as Permit2 asks for it; one of anybody else, or of another form, is not',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const digest = hash('a permit')
      const own = flat(sign(digest, alice!.key))
      assert.equal(await asked(stage, alice!, digest, own), VALID)
      assert.equal(await stage.read(stage.target, 'GasTarget', 'verify', [alice!.hex, hexOf(digest), hexOf(own)]), true)
      const altered = Buffer.from(own)
      altered[5]! ^= 1
      const [r, s] = [own.subarray(0, 32), own.subarray(32, 64)]
      const other = [flat(sign(digest, bob!.key)), altered, own.subarray(0, 64), Buffer.concat([own, Buffer.of(0)])]
      const parities = [0, 1, 26, 29, 255].map((v) => Buffer.concat([r, s, Buffer.of(v)]))
      for (const signature of [...other, ...parities, Buffer.alloc(0), Buffer.alloc(65)])
        assert.equal(await asked(stage, alice!, digest, signature), INVALID, hexOf(signature))
      assert.equal(await asked(stage, alice!, hash('another permit'), own), INVALID)
      assert.equal(await asked(stage, bob!, digest, own), INVALID)
    },
  ],
  [
    'the nested form of typed data (ERC-7739) is good for one account, one network and what it shows',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const asks = bytesOf(hashTypedData({ domain: appDomain(stage), types: mailTypes, primaryType: 'Mail', message: mail })) // prettier-ignore
      const signature = flat(sign(nestedDigest(stage, alice!), alice!.key))
      assert.equal(await asked(stage, alice!, asks, wrap(stage, signature)), VALID)
      // The explicit mode: the name stands behind the types.
      assert.equal(await asked(stage, alice!, asks, wrap(stage, signature, `${MAIL}Mail`)), VALID)
      const theirs = flat(sign(nestedDigest(stage, bob!), alice!.key))
      const elsewhere = flat(sign(nestedDigest({ ...stage, chainId: stage.chainId + 1 }, alice!), alice!.key))
      const salted = flat(sign(nestedDigest(stage, alice!, `0x${'01'.repeat(32)}`), alice!.key))
      for (const wrong of [theirs, elsewhere, salted, flat(sign(nestedDigest(stage, alice!), bob!.key))])
        assert.equal(await asked(stage, alice!, asks, wrap(stage, wrong)), INVALID)
      assert.equal(await asked(stage, alice!, hash('something else'), wrap(stage, signature)), INVALID)
      for (const description of ['', 'Mail', 'Mail(address to', '(address to,string contents)', 'Ma il(address to)'])
        assert.equal(await asked(stage, alice!, asks, wrap(stage, signature, description)), INVALID, description)
      assert.equal(await asked(stage, bob!, asks, wrap(stage, signature)), INVALID)
      // Cut off anywhere it is nobody's, and nothing reverts.
      const whole = wrap(stage, signature)
      for (let length = 0; length < whole.length; length += 13)
        assert.equal(await asked(stage, alice!, asks, whole.subarray(0, length)), INVALID)
    },
  ],
  [
    'the nested form of a personal message (ERC-7739) is good for one account',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const asks = bytesOf(hashMessage('log me in'))
      const nested = (whose: Account) =>
        bytesOf(
          hashTypedData({
            domain: ownDomain(stage, whose),
            types: { PersonalSign: [{ name: 'prefixed', type: 'bytes' }] },
            primaryType: 'PersonalSign',
            message: { prefixed: hexOf(Buffer.from('\x19Ethereum Signed Message:\n9log me in')) },
          }),
        )
      assert.equal(await asked(stage, alice!, asks, flat(sign(nested(alice!), alice!.key))), VALID)
      assert.equal(await asked(stage, alice!, asks, flat(sign(nested(bob!), alice!.key))), INVALID)
      assert.equal(await asked(stage, alice!, asks, flat(sign(nested(alice!), bob!.key))), INVALID)
    },
  ],
  [
    'it says that it knows the nested forms, and what they are signed with (ERC-7739, ERC-5267)',
    async (stage) => {
      const alice = await stage.user('alice')
      const question = Buffer.from('7739'.repeat(16), 'hex')
      assert.equal(await asked(stage, alice, question, Buffer.alloc(0)), '0x77390001')
      const [fields, name, version, chainId, verifyingContract, salt, extensions] = await stage.read<[Hex, string, string, bigint, Hex, Hex, bigint[]]>(alice.address, 'Delegate', 'eip712Domain') // prettier-ignore
      assert.deepEqual([fields, name, version, chainId], ['0x0f', 'Chatelaine', '1', BigInt(stage.chainId)])
      assert.deepEqual([verifyingContract.toLowerCase(), salt, extensions], [alice.hex, `0x${'00'.repeat(32)}`, []])
    },
  ],
  [
    'it takes coins, with no more gas than a transfer gives, and tokens that ask first',
    async (stage) => {
      const [alice, bob] = await stage.users('pair', 2)
      const { stranger, collectible, items, target } = stage
      const pay = stage.encode('GasTarget', 'payWithLittleGas', [alice!.hex])
      assert.equal((await stage.send(stranger, target, pay, { value: 7n })).status, '0x1')
      assert.equal(await stage.balanceOf(alice!), 7n)
      await stage.send(stranger, collectible, stage.encode('SampleCollectible', 'mint', [alice!.hex, 9n]))
      const pass = stage.encode('SampleCollectible', 'safeTransferFrom', [alice!.hex, bob!.hex, 9n])
      assert.deepEqual(words(await stage.dispatch([await stage.operation(alice!, [stage.call(collectible, pass)])])), ['Done']) // prettier-ignore
      assert.equal((await stage.read<Hex>(collectible, 'SampleCollectible', 'ownerOf', [9n])).toLowerCase(), bob!.hex)
      for (const data of [
        stage.encode('SampleItems', 'mint', [alice!.hex, 3n, 5n]),
        stage.encode('SampleItems', 'mintBatch', [alice!.hex, [3n, 4n], [1n, 2n]]),
      ])
        assert.equal((await stage.send(stranger, items, data)).status, '0x1')
      assert.equal(await stage.read(items, 'SampleItems', 'balanceOf', [alice!.hex, 3n]), 6n)
    },
  ],
  [
    'it names the interfaces that it has (ERC-165), and no other',
    async (stage) => {
      const alice = await stage.user('alice')
      const says = (id: Hex) => stage.read(alice.address, 'Delegate', 'supportsInterface', [id])
      for (const id of ['0x01ffc9a7', '0x1626ba7e', '0x150b7a02', '0x4e2312e0'] as const)
        assert.equal(await says(id), true, id)
      for (const id of ['0xffffffff', '0x00000000', '0x80ac58cd'] as const) assert.equal(await says(id), false, id)
    },
  ],
  [
    'a call that it does not know is refused, with coins or without',
    async (stage) => {
      const alice = await stage.user('alice')
      for (const value of [0n, 1n])
        assert.equal((await stage.send(stage.stranger, alice.address, Buffer.from('deadbeef', 'hex'), { value, gas: 200_000 })).status, '0x0') // prettier-ignore
      const own = await stage.dispatch([
        await stage.operation(alice, [stage.call(alice.address, Buffer.of(1, 2, 3, 4))]),
      ])
      assert.deepEqual(words(own), [failed(0, '0x')])
      // To itself without data it may send, as any account may.
      assert.deepEqual(words(await stage.dispatch([await stage.operation(alice, [stage.call(alice.address, Buffer.alloc(0))])])), ['Done']) // prettier-ignore
    },
  ],
  [
    'an account keeps no storage and its own nonce, and can leave: delegated to nothing it is as before',
    async (stage) => {
      const alice = await stage.user('alice')
      await stage.dispatch([await stage.operation(alice, [stage.on('ping')])])
      for (const slot of ['0x0', '0x1', '0x2'])
        assert.equal(BigInt(await stage.rpc<Hex>('eth_getStorageAt', alice.hex, slot, 'latest')), 0n)
      assert.equal(await stage.rpc('eth_getTransactionCount', alice.hex, 'latest'), '0x1', 'of the authorization')
      const leaving = [await stage.authorize(alice, { address: Buffer.alloc(20), nonce: 1 })]
      await stage.send(stage.sponsor, stage.sponsor.address, Buffer.alloc(0), { authorizations: leaving })
      assert.equal(await stage.rpc('eth_getCode', alice.hex, 'latest'), '0x')
      assert.deepEqual(words(await stage.dispatch([await stage.operation(alice, [stage.on('ping')])])), ['Failed NotDelegated']) // prettier-ignore
    },
  ],
  [
    'a hundred transfers of a token of a hundred accounts take 22,600 gas and 220 bytes each at most',
    async (stage) => {
      const users = await stage.users('hundred', 100)
      const shop = accountOf('a shop')
      for (const user of users) await stage.mint(user, 10n)
      const batch = (amount: bigint) =>
        Promise.all(users.map((user) => stage.operation(user, [stage.transfer(shop, amount)], { gasLimit: 100_000 })))
      await stage.dispatch(await batch(1n), { gas: 16_000_000 })
      const operations = await batch(2n)
      const sent = await stage.dispatch(operations, { gas: 16_000_000 })
      assert.equal(sent.outcomes.filter(({ kind }) => kind === 'Done').length, 100)
      assert.equal(await stage.held(shop), 300n)
      const [gas, bytes] = [Number(sent.gasUsed) / 100, dispatchData(operations).length / 100]
      assert.ok(gas <= 22_600, `${gas} gas each`)
      assert.ok(bytes <= 220, `${bytes} bytes each`)
      if (process.env.GAS_FIGURES === 'yes') console.log(`${gas} gas and ${bytes} bytes each; ${artefact('Delegate').bytecode.length / 2} bytes of code`) // prettier-ignore
    },
  ],
]
