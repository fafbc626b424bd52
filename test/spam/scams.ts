import { moved, type Draft, type Pen, type Volume } from './pen.ts'

const ZERO = `0x${'0'.repeat(40)}` as const
const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

/** Fake tokens that send dust in the name of a real one: symbol, name. */
const TWINS = {
  tune: ['USDC/USD Coin', 'USDT/Tether USD', 'USDT/USDT', 'USDC/', 'USDC/USDC', 'WETH/Wrapped Ether', 'DAI/Dai Stablecoin', 'LINK/ChainLink Token', 'UNI/Uniswap', 'usdt/Tether USD', 'USDC/USD Coin Official', 'WBTC/Wrapped BTC'],
  seen: ['USDT/Tether USD', 'USDC/USD Coin', 'USDT/', 'USDC/Circle USDC', 'USDT/Tether USDT', 'DAI/DAI', 'WETH/WETH', 'UNI/UNI', 'USDc/USD Coin', 'LINK/ChainLink Token V2', 'WBTC/Wrapped BTC', 'Usdt/Tether USD Stablecoin'],
  judge: ['USDT/Tether', 'USDC/USD Coin (Circle)', 'DAI/Dai', 'USDT/USDT Token', 'WETH/', 'UNI/Uniswap Protocol', 'LINK/LINK', 'USDC/USD-Coin', 'wbtc/Wrapped BTC', 'usdc/usdc', 'USDT/Tether USD (PoS)', 'WETH/Wrapped ETHER'],
} // prettier-ignore

/** Symbols in the letters of other scripts, or with marks. */
const DISGUISES = {
  tune: ['UЅDС/UЅD Соіn', 'USDС/USD Coin', 'ՍSDT/Tether USD', 'USDТ/Tеthеr USD', 'ꓴꓢꓓꓔ/Tether USD', 'ＵＳＤＣ/USD Coin', 'UṢDC/USD Coin', 'WЕTH/Wrapped Ether', 'ЕTH/Ethereum', 'EТH/Ether', 'DАI/Dai Stablecoin', 'U5DC/USD Coin', '𝐔𝐒𝐃𝐓/Tether USD', 'Ꮃᗴth/Wrapped Eтher', 'ꓡINK/ChainLink Token', 'USDТ/USDТ'],
  seen: ['USDᏟ/USD Coin', 'UЅDT/Tether USD', 'USḌT/Tether USD', 'ՍՏDC/USD Coin', 'ꓴSDC/USD Coin', 'USDΤ/Tether USD', 'ᴜꜱᴅᴄ/USD Coin', '𝖴𝖲𝖣𝖢/USD Coin', 'ΕΤΗ/Ether', 'ETН/Ethereum', 'WEТH/Wrapped Ether', 'DΑI/Dai Stablecoin', 'DAl/Dai Stablecoin', 'USD С/USD Coin', 'UՏDT/Tether USD', 'ＷＥＴＨ/Wrapped Ether'],
  judge: ['ՍSDС/USD Coin', 'UЅDC/USD Coin', 'US‌DТ/Tether USD', 'ꓴSDT/Tether USD', 'UŚDT/Tether USD', 'WΕTΗ/Wrapped Ether', '𝑈𝑆𝐷𝐶/USD Coin', 'ᴡᴇᴛʜ/Wrapped Ether', 'ᎬTH/Ether', 'LІNK/ChainLink Token', 'UNІ/Uniswap', 'DАІ/Dai Stablecoin', 'ＵＳＤＴ/Tether USD', 'USDᑕ/USD Coin', 'U̲SDC/USD Coin', 'WВTC/Wrapped BTC'],
} // prettier-ignore

/** The same where the operator lists nothing. */
const DISGUISES_UNLISTED = {
  tune: ['USDТ/Tether USD', 'UЅDС/USD Coin', 'WЕTH/Wrapped Ether', 'АRB/Arbitrum'],
  seen: ['USDС/USD Coin', 'ՍSDT/Tether USD', 'ЕTH/Ether', 'UΝI/Uniswap'],
  judge: ['USDТ/USDТ', 'ＵＳＤＣ/USD Coin', 'ЅHIB/SHIBA INU', 'WEТH/Wrapped Ether'],
} // prettier-ignore

const LINKS = {
  tune: ['Visit usdc-bonus.com to claim/Visit usdc-bonus.com to claim', 'USDCGift.org/Claim your reward on USDCGift.org', '$ ethdrop.xyz/Access ethdrop.xyz to receive', 'aave-reward.net/AAVE Reward - aave-reward.net', 'https://lido-claim.fi/Lido Airdrop', 'UNI-V3.claims/Uniswap airdrop UNI-V3.claims', 'www.shibbonus.io/SHIB Bonus', 'APE/Claim at apecoin-drop.com', 't.me/opreward/OP Reward', 'ARB/arbitrum-gift.app/claim', 'ZK/zksync[.]gift - claim', '! 5000 USDT/usdt5000.top 5000 USDT Reward', 'BLUR/Blur season 3 airdrop: blur-s3.site', 'ENA voucher/Redeem voucher at ena.promo', 'CLAIM/Go to base-mint.club and claim', 'eth2.0 rewards/eth2-stake.live Rewards', 'LDO/https://stake-lido.eu', 'vitalik.gift/Visit https://vitalik.gift', 'claim.eigen-layer.org/Eigen rewards', '$5,000 | circle-usd.net/Voucher $5,000'],
  seen: ['Claim USDT at tether-gift.org/Claim USDT at tether-gift.org', 'USDT reward/Claim on www.usdtpool.net', 'stETH.claims/Visit stETH.claims to get rewards', 'ETHG/# eth-giveaway.io reward', '1inch.bonus/1inch bonus token 1inch.bonus', 'https://pepe-air.xyz/PEPE', 'LINK bonus/link-bonus.app/claim', 'OP/Optimism Airdrop 4 | op-airdrop.site', 'hxxp://wsteth.click/wstETH reward', 'STRK/starknet(dot)gifts claim now', 'DYDX/Redeem at dydx-voucher.top', 'MATIC/Visit polygon-gift.com and claim', 'bit.ly/3xArb/ARB', 'discord.gg/zkdrop/ZK airdrop', 'W reward/wormhole-w.claims to claim', '$3500 USDC/usd-coin.promo $3500', 'JUP/Eligible for JUP: jup-claim.live', 'ONDO/ondо-finance.xyz reward', 'Rewards/ether.fi-rewards.com claim', 'SCR/t.me/scroll_claims'],
  judge: ['Get reward: ethena-air.com/Get reward: ethena-air.com', 'Claim MNT/mantle-claim.org', '$AAVE/Visit: www.aave-drop.io', 'USDT-GIFT.COM/$1,250 USDT', 'Blast points/https://blast-points.app', 'TAIKO/taiko.claims - Claim rewards', 'Reward/Rewards for LPs at uniswaplp.net', 'ZKS/zks-drop.xyz airdrop', '1000 DAI/Swap 1000 DAI at dai-swap.top', 'RPL bonus/www.rocket-bonus.fi', 'LINEA/t.me/linea_airdrop', 'BASE/base.gift/claim', 'FRAX voucher/fraxvoucher.net', 'UNIV4/Eligible wallets: univ4.site', 'hxxps://curve-gift.fi/CRV', 'ETH/ETH Rewards eth-pos.live', 'MEV Bot/Claim profits on mevbot.cash', 'steth/stake-bonus.io bonus', 'SYN/Visit synapse.gifts and redeem', 'ARBDROP/arb-season2.com claim'],
} // prettier-ignore

const LINKED_COLLECTIONS = {
  tune: ['AIRDROP/1000 USDC at usdc-nft.com', 'stETH Voucher/Claim: lido-nft.net', 'MINT/Free mint freemint.art - visit www.freemint.art', 'UNI Pass/uniswap-lp.org claim', 'NFT/$2000 reward: get.wsteth.io', 'GIFT/Visit opensea-pro.gift to redeem', 'APE/apefest-claim.xyz Voucher', '10 ETH/10 ETH prize eth10.win', 'TICKET/Claim your ticket: aave-v4.com', 'Zepe/Zepe.io reward | ZEPE.io'],
  seen: ['VOUCHER/Claim your USDT at usdt-nft.net', 'PASS/lido-pass.org reward', 'AAVE/Aave NFT: claim aave-nft.com', 'BOX/Mystery box - visit https://box-eth.app', 'FREE/Free 2 ETH gift2eth.xyz', 'ARB NFT/arb-nft.claims claim now', 'WINNER/Winner! collect at blur-win.io', 'USDC/Voucher 1500 USDC circle-nft.com', 'Ticket/zk-ticket.live eligible', 'OP/Redeem: op-nft.site'],
  judge: ['LP/LP reward - claim at sushi-nft.com', 'USDT/Get 1,000 USDT: tether-nft.org', 'DROP/Airdrop pass airdrop-pass.xyz', 'KEY/Access key: visit claim-key.app', 'ETH/3 ETH giveaway eth-box.live', 'PEPE/pepe-nft.gift claim', 'AIR/www.nft-air.net', 'MATIC/Polygon bonus polybonus.io', 'BLUR/Redeem at blur-redeem.club'],
} // prettier-ignore

const LURES = {
  tune: ['$1000 Voucher/$1000 Voucher', 'Claim your reward/Claim your reward', '5 ETH Reward/5 ETH Reward', 'GIFT/Redeem now for 2000 USDT', 'Airdrop/Claim: 3,000 USDC airdrop', 'BONUS/Bonus 0.5 BTC', 'FREE/Free $500 gift', 'REWARD/To claim your tokens check website'],
  seen: ['500 USDC Voucher/500 USDC Voucher', 'Claim now/Claim now and win', '2.5 ETH gift/2.5 ETH gift', 'USDT/Receive your 1000 USDT', 'Airdrop/$2,500 airdrop', 'WIN/Winner of 10k$ prize', 'Voucher/Visit site to redeem', 'EIGEN/Reward 900 USDC'],
  judge: ['$750 Gift/$750 Gift', 'Redeem now/Redeem now', '1 ETH Voucher/1 ETH Voucher', 'ARB/Claim your ARB', 'Bonus/Bonus 300 USDC', 'PRIZE/$9,999 prize', 'Airdrop/To receive open the picture', 'FREE/Free 1,000 USDT'],
} // prettier-ignore

const NATIVE_TWINS = {
  tune: ['ETH/Ethereum', 'ETH/Ether', 'eth/ETH', 'ETH/'],
  seen: ['ETH/Ethereum Token ETH', 'ETH/ETH', 'Eth/Ether', 'ETH/Ether Coin'],
  judge: ['ETH/ETH Coin', 'ETH/', 'Eth/Ethereum ETH', 'ETH/Ether (ETH)'],
} // prettier-ignore

const DECORATED = {
  tune: ['USDC ✅/USD Coin', '$USDT/Tether USD', 'USDT./USDT', 'U S D C/USD Coin', 'USDC™ ✔/USDC', '🔵USDC/USD Coin'],
  seen: ['✔USDT/Tether USD', '$USDC/USDC', 'USDC!/USD Coin', '[USDT]/Tether USD', 'USDT 🟢/USDT', 'W-ETH/Wrapped Ether'],
  judge: ['USDC🔥/USD Coin', '(USDC)/USDC', 'USDT*/Tether USD', '$DAI/Dai Stablecoin', '-USDC-/USD Coin', '💵USDT/USDT'],
} // prettier-ignore

const NONSENSE = {
  tune: ['ELON/Elon Moon', 'MBONK/Mega Bonk', 'TRUMP2/Trump 2', 'XAI/XAI Chain', 'GPT/GPT Coin', '/', 'TKN/Token', 'AIX/AI X', 'ZRO1/Zero One', 'FROG/Frog King', 'BRC/BRC Index', 'MOON/Moon'],
  seen: ['DOGE2/Doge Two', 'PNDC/Pond', 'ERC20/ERC20', 'AAA/AAA', 'KIBA/Kiba', 'BABY/Baby Coin', 'XRP/Ripple', 'SOLX/Sol X', '/', 'HAM/Hamster', 'TON9/Ton Nine', 'CAT/Cat in a bag'],
  judge: ['ZOO/Zoo Coin', 'INU7/Inu Seven', 'BONK/Bonk', 'META/Meta', '/', 'PUNKX/Punk X', 'GROK/Grok', 'USDZ/Zed Dollar', 'WIF2/Hat Dog', 'MILK/Milk', 'YUM/Yum', 'RICH/Rich Cat'],
} // prettier-ignore

/** Tokens of attackers that say that the victim sent the same amount once more: symbol, name. */
const FAKES = {
  tune: [
    ['USDT', 'USDT'],
    ['USDC', 'USD Coin'],
    ['ERC20', ''],
    ['', ''],
  ],
  seen: [
    ['USDT', 'Tether USD'],
    ['', 'Token'],
    ['T', 'T'],
    ['USDC', 'USDC'],
  ],
  judge: [
    ['USDC', 'USDC'],
    ['TOKEN', 'TOKEN'],
    ['USDT', 'Tether'],
    ['USD', 'Dollar'],
  ],
} as const

/** Transfers that nobody in their right mind wants to see, as they are on public chains. */
export function scams(pen: Pen, volume: Volume): Draft[] {
  const { random, address, alike, known, coin } = pen
  const words = (list: Record<Volume, string[]>) =>
    list[volume].map((one) => {
      // The name is behind the last slash that no address of a site has in it.
      const at = one.startsWith('http') || one.startsWith('t.me') || one.startsWith('bit.ly') || one.startsWith('discord') || one.startsWith('hxxp') ? one.lastIndexOf('/') : one.indexOf('/') // prettier-ignore
      return [one.slice(0, at), one.slice(at + 1)] as const
    })
  const dollars = (low: number, high: number) => BigInt(low + random(high - low)) * 1_000_000n
  const stable = () => known(random(2) === 0 ? 'USDC' : 'USDT')
  const ends = () => [3 + random(3), 4 + random(3)] as const
  const paid = (other: `0x${string}`, value = dollars(20, 40_000)) =>
    moved(stable(), 'OUT', { other, value, by: 'person' as const })

  return [
    ...times(14, (): Draft => {
      const friend = address()
      const token = stable()
      return {
        pattern: 'poison-zero',
        why: 'transferFrom of nothing, out of the victim, to an address like the one they had paid',
        before: [moved(token, 'OUT', { other: friend, value: dollars(50, 9_000), by: 'person' })],
        judged: moved(token, 'OUT', { other: alike(friend, ...ends()), value: 0n }),
      }
    }),
    ...times(8, (index): Draft => {
      const friend = address()
      const [symbol, name] = FAKES[volume][index % 4]!
      const before = paid(friend)
      const fake = coin(symbol, name, 6)
      return {
        pattern: 'poison-fake-token',
        why: 'a token of the attacker says that the person sent the same amount again, to an address like it',
        tokens: [fake],
        before: [before],
        judged: moved(fake, 'OUT', { other: alike(friend, ...ends()), value: before.value }),
        ...(index === 3 ? { isElsewhere: true as const } : {}),
      }
    }),
    ...words(TWINS).map(([symbol, name], index): Draft => {
      const fake = coin(symbol, name, 6)
      const other = index % 3 === 0 ? ZERO : address()
      return { pattern: 'twin', why: 'a known token by symbol and name, at another address', tokens: [fake], judged: moved(fake, 'IN', { other, value: dollars(100, 5_000) }) } // prettier-ignore
    }),
    ...words(DISGUISES).map(([symbol, name]): Draft => {
      const fake = coin(symbol, name, 6)
      return { pattern: 'disguised', why: 'drawn like a known token, in other letters', tokens: [fake], judged: moved(fake, 'IN', { other: address(), value: dollars(1, 90_000) }) } // prettier-ignore
    }),
    ...words(DISGUISES_UNLISTED).map(([symbol, name]): Draft => {
      const fake = coin(symbol, name, 6)
      return { pattern: 'disguised-unlisted', why: 'drawn like a token that everybody knows; the operator lists none', network: 'unlisted', tokens: [fake], judged: moved(fake, 'IN', { other: address(), value: dollars(1, 900) }) } // prettier-ignore
    }),
    ...words(LINKS).map(([symbol, name], index): Draft => {
      const token = coin(symbol, name)
      return {
        pattern: 'link-airdrop',
        why: 'sent to everyone, so that they read where to go',
        network: index % 4 === 3 ? 'polygon' : 'ethereum',
        tokens: [token],
        judged: moved(token, 'IN', { other: index % 2 === 0 ? ZERO : address(), value: BigInt(1 + random(9_999)) * 10n ** 18n }), // prettier-ignore
      }
    }),
    ...words(LINKED_COLLECTIONS).map(([symbol, name], index): Draft => {
      const token = pen.collection(symbol, name, index % 3 === 0 ? 'ERC721' : 'ERC1155')
      return { pattern: 'link-collectible', why: 'a collectible that leads to a site', tokens: [token], judged: moved(token, 'IN', { other: ZERO, value: 1n }) } // prettier-ignore
    }),
    ...words(LURES).map(([symbol, name], index): Draft => {
      const token = index % 2 === 0 ? pen.collection(symbol, name, 'ERC1155') : coin(symbol, name)
      return { pattern: 'lure', why: 'promises money, the site is in its picture', tokens: [token], judged: moved(token, 'IN', { other: address(), value: BigInt(1 + random(50)) }) } // prettier-ignore
    }),
    ...words(NONSENSE).map(([symbol, name], index): Draft => {
      const token = index % 4 === 3 ? pen.collection(symbol, name) : coin(symbol, name)
      return {
        pattern: 'claimed',
        why: 'says that the person sent what they never had, to advertise itself as bought by them',
        tokens: [token],
        judged: moved(token, 'OUT', {
          other: address(),
          value: index % 4 === 3 ? 1n : BigInt(1 + random(999)) * 10n ** 18n,
        }),
      }
    }),
    ...words(NATIVE_TWINS).map(([symbol, name]): Draft => {
      const fake = coin(symbol, name)
      return { pattern: 'native-twin', why: 'a token by the name of the coin of the network', tokens: [fake], judged: moved(fake, 'IN', { other: address(), value: BigInt(1 + random(90)) * 10n ** 17n }) } // prettier-ignore
    }),
    ...words(DECORATED).map(([symbol, name]): Draft => {
      const fake = coin(symbol, name, 6)
      return { pattern: 'decorated', why: 'a known symbol with something around it that says nothing', tokens: [fake], judged: moved(fake, 'IN', { other: address(), value: dollars(1, 900) }) } // prettier-ignore
    }),
    // Cases that a careful rule may miss: they count all the same.
    ...times(2, (): Draft => {
      const friend = address()
      const token = stable()
      return {
        pattern: 'poison-dust',
        why: 'a few cents at most from an address like the one that was paid',
        before: [moved(token, 'OUT', { other: friend, value: dollars(30, 60_000), by: 'person' })],
        judged: moved(token, 'IN', { other: alike(friend, ...ends()), value: BigInt(1 + random(20_000)) }),
      }
    }),
    ...times(1, (): Draft => {
      const fake = coin('USDT', 'Tether USD', 6)
      return { pattern: 'twin-unlisted', why: 'fake, but nobody told this installation which one is real', network: 'unlisted', tokens: [fake], judged: moved(fake, 'IN', { other: address(), value: dollars(10, 90) }) } // prettier-ignore
    }),
  ]
}
