import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, suite, test } from 'node:test'
import type { Chain } from '../chain/network.ts'
import type { Hex } from '../ids.ts'
import { openState } from '../state.ts'
import { drawnKey, hasMixedScripts, isDisguised } from './look-alike.ts'
import { knownTokensOf, readKnownTokens } from './known.ts'
import { knownTokens, suspectToken, type ToldToken } from './suspicion.ts'

const USDC: Hex = '0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48'
const known = knownTokens(new Map([[USDC, { symbol: 'USDC', name: 'USD Coin' }]]), { symbol: 'ETH', name: 'Ether' })
const suspect = (symbol: string, name: string, given: Partial<ToldToken> = {}) =>
  suspectToken(
    { address: '0x7070707070707070707070707070707070707070', tokenType: 'ERC20', symbol, name, ...given },
    known,
  )

suite('letters that are drawn alike', () => {
  for (const text of ['UЅDС', 'ＵＳＤＣ', 'USḌC', 'ՍSDC', '𝐔𝐒𝐃𝐂', 'usdс'])
    test(`${text} is drawn like USDC, and disguised`, () => {
      assert.equal(drawnKey(text), drawnKey('USDC'))
      assert.equal(isDisguised(text), true)
    })

  test('a capital I and a small l are one stroke, a capital L is another letter', () => {
    assert.equal(drawnKey('DAl'), drawnKey('DAI'))
    assert.notEqual(drawnKey('DAL'), drawnKey('DAI'))
    assert.equal(isDisguised('DAl'), false)
  })

  test('other scripts by themselves, Greek beside Latin, and signs of currencies are no disguise', () => {
    for (const text of ['РУБЛЬ', '柴犬', 'αETH', 'USD₮', '한국']) assert.equal(hasMixedScripts(text), false, text)
    assert.equal(hasMixedScripts('Wrapрed'), true)
    assert.equal(hasMixedScripts('USD РУБЛЬ'), false)
    assert.equal(isDisguised('USD₮0'), false)
  })
})

suite('a token is suspected by its own words', () => {
  const CASES: [symbol: string, name: string, points: number, reasons: string[]][] = [
    ['ABC', 'Abc', 0, []],
    ['', '', 0, []],
    ['UЅDС', 'x', 100, ['look_alike_symbol', 'mixed_scripts']],
    ['ＷＥＴＨ', 'x', 80, ['look_alike_symbol']],
    ['USDC', '', 60, ['same_symbol']],
    ['usdc ✔', 'Circle USDC', 60, ['same_symbol']],
    ['USDC', 'Under Sea Diving Club', 25, ['same_symbol']],
    // Names that contain or begin with the known name, except for two-letter ones.
    ['USDC', 'USD Coin (Bridged)', 60, ['same_symbol']],
    ['USDC', 'USD Co', 60, ['same_symbol']],
    ['USDC', 'US', 25, ['same_symbol']],
    ['ETH', 'Ether', 60, ['same_symbol']],
    ['USDC.e', 'USD Coin', 20, ['same_symbol']],
    ['USDT', 'Tether USD', 0, []],
    ['YFI', 'yearn.finance', 20, ['link_in_name']],
    ['X', 'claim.yearn.finance', 50, ['link_in_name', 'lure_in_name']],
    ['X', '$1000 x-drop.com', 50, ['link_in_name', 'lure_in_name']],
    ['X', '$1000', 0, []],
    ['X', 'https://x', 70, ['link_in_name']],
    ['X', 'gift[.]example.org', 50, ['link_in_name', 'lure_in_name']],
    ['X', 'example.org/claim', 90, ['link_in_name', 'lure_in_name']],
    ['X', 'Staked Reward', 30, ['lure_in_name']],
    ['X', 'Claim your reward', 50, ['lure_in_name']],
    ['20WETH-80BAL', '20WETH-80BAL', 0, []],
    ['$500 Voucher', '', 60, ['lure_in_name']],
    ['X', 'МеtаMаsk', 40, ['mixed_scripts']],
  ] // prettier-ignore
  for (const [symbol, name, points, reasons] of CASES)
    test(`${symbol || '(none)'}, ${name || '(none)'}: ${points}`, () => {
      assert.deepEqual(suspect(symbol, name), { points, reasons })
    })

  test('docs/build/history-spam.md says the points that are given for words', async () => {
    const page = await readFile(new URL('../../docs/build/history-spam.md', import.meta.url), 'utf8')
    const told = (reason: string) => new RegExp(`^\\| \`${reason}\` \\| (.*)$`, 'm').exec(page)![1]!
    const points = (symbol: string, name: string) => suspect(symbol, name).points
    const row = (reason: string, text: string) => assert.ok(told(reason).startsWith(text), `${told(reason)}: ${text}`)
    row('look_alike_symbol', `${points('ＷＥＴＨ', 'x')} |`)
    row('same_symbol', `${points('USDC', '')} |`)
    const [other, alone] = [points('USDC', 'Under Sea Diving Club'), points('USDC.e', 'USD Coin')]
    assert.ok(told('same_symbol').includes(`${other} if the name differs, ${alone} for the name alone`))
    const links = ['https://x', 'example.org/x', 'yearn.finance'].map((name) => points('X', name))
    row('link_in_name', `${links.join(', ')} |`)
    const lures = ['Claim your reward', 'Staked Reward', 'Reward Voucher $500'].map((name) => points('X', name))
    row('lure_in_name', `${lures[0]}, ${lures[1]} to ${lures[2]} |`)
    row('mixed_scripts', `${points('X', 'МеtаMаsk')} |`)
  })

  test('a known token has no points whatever it calls itself, and a collection may share the symbol of a currency', () => {
    assert.equal(suspect('USDC', 'claim at https://usdc.gift', { address: USDC }).points, 0)
    assert.equal(suspect('USDC', 'USDC', { tokenType: 'ERC721' }).points, 0)
    assert.equal(suspect('ＵＳＤＣ', 'USDC', { tokenType: 'ERC721' }).points, 80)
  })

  test('a known token whose symbol has no letters, or that has no name, makes no other one suspicious by that', () => {
    const other: Hex = '0x7171717171717171717171717171717171717171'
    const beside = (symbol: string, name: string) =>
      knownTokens(new Map([[other, { symbol, name }]]), { symbol: 'ETH', name: 'Ether' })
    const token = { address: '0x7070707070707070707070707070707070707070', tokenType: 'ERC20' } as const
    const points = (words: { symbol: string; name: string }, list: ReturnType<typeof beside>) =>
      suspectToken({ ...token, ...words }, list).points
    assert.equal(points({ symbol: '🚀', name: 'Rocket' }, beside('🔥', 'Fire')), 0)
    assert.equal(points({ symbol: '', name: '' }, beside('🔥', 'Fire')), 0)
    assert.equal(points({ symbol: 'ABC', name: '' }, beside('XYZ', '')), 0)
    assert.equal(points({ symbol: 'XYZ', name: 'Another thing' }, beside('XYZ', '')), 25)
  })

  test('longest names that are kept are read in no time', () => {
    const started = process.cpuUsage()
    for (const one of ['a.', 'a-', '1,', '$1', 'claim ', 'visit a ', '.']) suspect(one.repeat(32), one.repeat(32))
    const { user, system } = process.cpuUsage(started)
    assert.ok(user + system < 500_000, `${user + system} µs of CPU`)
  })
})

suite('KNOWN_TOKENS_FILE', () => {
  const folder = mkdtempSync(join(tmpdir(), 'chatelaine-known-'))
  after(() => rmSync(folder, { recursive: true }))
  const read = (content: unknown, options?: { allowsHttp: boolean }) => {
    const file = join(folder, 'tokens.json')
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content))
    return readKnownTokens(file, options)
  }
  const token = { symbol: 'USDC', decimals: 6, name: 'USD Coin' }

  test('holds tokens as a policy does, by network, in any case of the digits', () => {
    const checksummed = '0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48'
    const listed = read({ [`1:${checksummed}`]: token, [`137:${USDC}`]: { symbol: 'X' } })
    const chain: Pick<Chain, 'chainId' | 'symbol' | 'coin' | 'state'> = { chainId: 1, symbol: 'ETH', coin: 'Ether', state: openState() } // prettier-ignore
    const of = (list?: typeof listed) => knownTokensOf(list === undefined ? {} : { knownTokens: list }, chain as Chain) // prettier-ignore
    assert.deepEqual(of(listed), known)
    assert.deepEqual(of(), knownTokens(new Map(), known.native))
  })

  test('holds the address of a picture, over https, and on this machine in development over http', () => {
    const pictureOf = (fields: object, options?: { allowsHttp: boolean }) => read({ [`1:${USDC}`]: { ...token, ...fields } }, options).get(`1:${USDC}`)!.picture // prettier-ignore
    const logoURI = 'https://pictures.example/usdc.png'
    assert.equal(pictureOf({}), undefined)
    assert.deepEqual(pictureOf({ logoURI }), { url: logoURI, allowsPrivate: false })
    assert.deepEqual(pictureOf({ logoURI, allowPrivate: true }), { url: logoURI, allowsPrivate: true })
    const here = 'http://localhost:8000/usdc.png'
    assert.deepEqual(pictureOf({ logoURI: here }, { allowsHttp: true }), { url: here, allowsPrivate: false })
    for (const [wrong, allowsHttp] of [
      [here, false],
      ['http://pictures.example/usdc.png', true],
    ] as const)
      // prettier-ignore
      assert.throws(() => pictureOf({ logoURI: wrong }, { allowsHttp }), /logoURI must be an https address/)
  })

  const WRONG: [content: unknown, problem: RegExp][] = [
    ['{', /does not hold JSON/],
    [[], /must be an object/],
    [{ [USDC]: token }, /expected CHAIN_ID:ADDRESS/],
    [{ '1:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eb48': token }, /checksum/],
    [{ [`1:${USDC}`]: token, [`1:${USDC.toUpperCase().replace('0X', '0x')}`]: token }, /listed twice/],
    [{ [`1:${USDC}`]: { ...token, logo: 'x' } }, /unknown field logo/],
    [{ [`1:${USDC}`]: { name: 'x' } }, /symbol must be a text/],
    [{ [`1:${USDC}`]: { symbol: 'X', name: 5 } }, /name must be a text/],
    [{ [`1:${USDC}`]: { symbol: 'X', decimals: 1.5 } }, /decimals must be a whole number/],
    ...['ipfs://x', 'data:image/png;base64,', 'usdc.png', 'https://user:word@pictures.example/', 5, null].map((logoURI): [unknown, RegExp] => [{ [`1:${USDC}`]: { ...token, logoURI } }, /logoURI must be an https address/]), // prettier-ignore
    [{ [`1:${USDC}`]: { ...token, allowPrivate: 'yes' } }, /allowPrivate must be true or false/],
    [{ [`1:${USDC}`]: 5 }, /symbol must be a text/],
  ]
  for (const [content, problem] of WRONG)
    test(`refuses what is ${problem.source}`, () => assert.throws(() => read(content), problem))
  test('refuses a file that is not there', () =>
    assert.throws(() => readKnownTokens(join(folder, 'no')), /cannot be read/))
})
