import assert from 'node:assert/strict'
import { after, before, suite, test } from 'node:test'
import { getContractAddress, keccak256, recoverTransactionAddress } from 'viem'
import { evms, type Evm } from '../../test/gas/evm.ts'
import { accountOf, caliburCode, ETHER } from '../../test/gas/stage.ts'
import { quantityOf, type Hex } from '../ids.ts'
import { DEPLOYER, DEPLOYER_CODE, readGasContracts } from './contracts.ts'
import { deployGas, DeployRefusal, type AskChain } from './deploy.ts'

const contracts = readGasContracts()

for (const [name, open] of Object.entries(evms))
  suite(`deployed on ${name}`, () => {
    const [admin, sponsor] = [accountOf('an operator'), accountOf('a sponsor of theirs')]
    let evm: Evm
    let chainId: number
    const methods: string[] = []
    const ask: AskChain = (method, params) => {
      methods.push(method)
      return evm.rpc(method, ...params)
    }
    const deploy = (asked: AskChain = ask, sponsors: Hex[] = []) =>
      deployGas({ chainId, key: admin.key, sponsors, ask: asked, pause: () => new Promise(setImmediate) })
    const apart = async (work: () => Promise<void>) => {
      const before = await evm.rpc('evm_snapshot')
      await work().finally(() => evm.rpc('evm_revert', before))
    }
    before(async () => {
      evm = await open()
      chainId = Number(await evm.rpc<Hex>('eth_chainId'))
      await evm.rpc('hardhat_setBalance', admin.hex, quantityOf(10n * ETHER))
    })
    after(() => evm?.close())

    test('without the deterministic deployer it is put there first, by the transaction that all networks have it from', () =>
      apart(async () => {
        await evm.rpc('hardhat_setCode', DEPLOYER, '0x')
        await evm.rpc('hardhat_setNonce', DEPLOYER, '0x0').catch(() => null)
        const { sent } = await deploy()
        assert.equal(await evm.rpc('eth_getCode', DEPLOYER, 'latest'), DEPLOYER_CODE)
        assert.equal(sent.length, 3)
        const raw = DEPLOYER_RAW
        assert.equal(sent[1], keccak256(raw))
        const sender = await recoverTransactionAddress({ serializedTransaction: raw as never })
        assert.equal(getContractAddress({ from: sender, nonce: 0n }).toLowerCase(), DEPLOYER)
      }))

    test('both are where they are everywhere, byte for byte, and sponsors are allowed; again, nothing is sent', async () => {
      await evm.rpc('hardhat_setCode', DEPLOYER, DEPLOYER_CODE)
      const first = await deploy(ask, [sponsor.hex])
      assert.deepEqual([first.dispatcher, first.delegate, first.sent.length], [contracts.dispatcher, contracts.delegate, 2]) // prettier-ignore
      assert.equal(await evm.rpc('eth_getCode', contracts.dispatcher, 'latest'), contracts.dispatcherCode)
      assert.equal(await evm.rpc('eth_getCode', contracts.delegate, 'latest'), contracts.delegateCode)
      methods.length = 0
      assert.deepEqual((await deploy(ask, [sponsor.hex])).sent, [])
      assert.ok(!methods.includes('eth_sendRawTransaction'))
    })

    test('what an earlier run sent and nobody mined is waited for, and nothing is signed beside it', () =>
      apart(async () => {
        let looks = 0
        const busy =
          (until: number): AskChain =>
          async (method, params) => {
            if (method === 'eth_sendRawTransaction') assert.ok(looks >= until, 'sent beside another')
            if (method !== 'eth_getTransactionCount' || params[1] !== 'pending') return ask(method, params)
            const mined = BigInt(await ask<Hex>(method, [params[0], 'latest']))
            return quantityOf(++looks < until ? mined + 1n : mined) as never
          }
        const other = accountOf('another sponsor')
        const { sent } = await deploy(busy(4), [other.hex])
        assert.deepEqual([sent.length, looks], [1, 4])
        looks = 0
        await assert.rejects(
          deploy(busy(Infinity), [accountOf('a third').hex]),
          /is not mined yet: run this again later/,
        )
      }))

    test('a transaction of ours that was reverted is said, and does not count as done', () =>
      apart(async () => {
        await deploy()
        const reverted: AskChain = async (method, params) => {
          const said = await ask<object | null>(method, params)
          return (method === 'eth_getTransactionReceipt' && said !== null ? { ...said, status: '0x0' } : said) as never
        }
        await assert.rejects(deploy(reverted, [accountOf('a fourth').hex]), /was reverted/)
      }))

    test('other code at an address is refused, of one byte too', () =>
      apart(async () => {
        await deploy()
        for (const [address, code] of [
          [contracts.dispatcher, contracts.dispatcherCode],
          [contracts.delegate, contracts.delegateCode],
        ] as const) {
          await evm.rpc('hardhat_setCode', address, `${code.slice(0, -2)}ff`)
          await assert.rejects(deploy(), /other code/)
          await evm.rpc('hardhat_setCode', address, code)
        }
      }))

    test('the dispatcher for Calibur is put where Calibur is, and refused where it is not, or is something else', () =>
      apart(async () => {
        const { dispatcher, delegate, dispatcherCode } = readGasContracts('calibur')
        const place = (code: Hex) => evm.rpc('hardhat_setCode', delegate, code)
        const deployCalibur = () =>
          deployGas({ chainId, key: admin.key, name: 'calibur', sponsors: [sponsor.hex], ask, pause: () => new Promise(setImmediate) }) // prettier-ignore
        await assert.rejects(deployCalibur(), /Calibur is not on this network, at 0x000000009b1d/)
        assert.equal(await evm.rpc('eth_getCode', dispatcher, 'latest'), '0x', 'nothing was sent')
        await place(caliburCode())
        const first = await deployCalibur()
        assert.deepEqual([first.dispatcher, first.delegate, first.sent.length], [dispatcher, delegate, 2])
        assert.equal(await evm.rpc('eth_getCode', dispatcher, 'latest'), dispatcherCode)
        assert.deepEqual((await deployCalibur()).sent, [])
        await place('0xfd')
        await assert.rejects(deployCalibur(), /an operation is refused/)
        await place('0x00')
        await assert.rejects(deployCalibur(), /nobody signed succeeds/)
      }))

    test('a network without authorizations is refused, whether it says so or passes over them', async () => {
      const without = (answer: 'refuses' | 'passes over'): AskChain => {
        return async (method, [call, ...rest]) => {
          const { authorizationList, ...known } = Object(call) as { authorizationList?: unknown }
          if (authorizationList !== undefined && answer === 'refuses') throw new Error('unknown field')
          return ask(method, [typeof call === 'object' ? known : call, ...rest])
        }
      }
      await assert.rejects(deploy(without('refuses')), /EIP-7702.*unknown field/)
      await assert.rejects(deploy(without('passes over')), /EIP-7702.*costs nothing/)
    })

    test('nobody shuts it off by using up the nonces of the keys that a run was seen to authorize with', () =>
      apart(async () => {
        const seen = new Set<Hex>()
        const watching: AskChain = (method, params) => {
          const { authorizationList, to } = Object(params[0]) as { authorizationList?: unknown; to?: Hex }
          if (authorizationList !== undefined) seen.add(to!)
          return ask(method, params)
        }
        await deploy(watching)
        assert.equal(seen.size, 2)
        for (const account of seen) await evm.rpc('hardhat_setNonce', account, '0x1')
        await deploy(ask, [sponsor.hex])
      }))

    test('a network before Cancun is refused with what its node says', async () => {
      const old: AskChain = (method, params) =>
        method === 'eth_call' ? Promise.reject(new Error('invalid opcode: PUSH0')) : ask(method, params)
      await assert.rejects(
        deploy(old),
        (error) => error instanceof DeployRefusal && /invalid opcode/.test(error.message),
      )
    })

    test('contracts that are there and believe anybody are refused', async () => {
      await deploy()
      const credulous: AskChain = async <T>(method: string, params: unknown[]) =>
        method === 'eth_call' && (params[0] as { from?: string }).from === contracts.dispatcher
          ? ('0x' as T)
          : ask<T>(method, params)
      await assert.rejects(deploy(credulous), /nobody signed/)
    })
  })

/** The transaction as published by its authors. */
const DEPLOYER_RAW =
  '0xf8a58085174876e800830186a08080b853604580600e600039806000f350fe7fffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffe03601600081602082378035828234f58015156039578182fd5b8082525050506014600cf31ba02222222222222222222222222222222222222222222222222222222222222222a02222222222222222222222222222222222222222222222222222222222222222'
