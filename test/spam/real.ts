import { moved, type Draft, type Pen, type Volume } from './pen.ts'

const ZERO = `0x${'0'.repeat(40)}` as const
const times = <T>(count: number, make: (index: number) => T): T[] =>
  Array.from({ length: count }, (_, index) => make(index))

const AIRDROPS = {
  tune: ['ARB/Arbitrum', 'OP/Optimism', 'ENS/Ethereum Name Service', 'DYDX/dYdX', 'BLUR/Blur', 'EIGEN/Eigen', 'APE/ApeCoin', 'LOOKS/LooksRare Token', 'STRK/Starknet Token', 'PENDLE/Pendle', 'COW/CoW Protocol Token', 'SAFE/Safe Token'],
  seen: ['ZK/ZKsync', 'ETHFI/ether.fi governance token', 'ENA/ENA', 'W/Wormhole Token', 'ZRO/LayerZero', 'ALT/AltLayer Token', 'SCR/Scroll', 'MORPHO/Morpho Token', 'AEVO/Aevo', 'HOP/Hop', 'DEGEN/Degen', 'PRIME/Echelon Prime'],
  judge: ['TIA/Celestia', 'JTO/Jito', 'PYTH/Pyth Network', 'MODE/Mode', 'TAIKO/Taiko Token', 'MNT/Mantle', 'GRASS/Grass', 'HYPE/Hyperliquid', 'LINEA/Linea', 'DRIFT/Drift', 'BAL/Balancer', 'GTC/Gitcoin'],
} // prettier-ignore

const STRANGE_NAMES = {
  tune: ['柴犬/柴犬コイン', '🔥/Fire 🔥', 'μUSD/Micro USD', 'αETH/Alpha Ether', 'РУБЛЬ/Цифровой рубль', '币安人生/币安人生', 'CAFÉ/Café Coin', '₿EANS/₿eans', 'ÐOG/Ðog', '🐸PEPE/Pepe Frog', 'Ξtherlings/Ξtherlings', '¥EN/Yen Stable'],
  seen: ['犬/犬', '💎/Diamond Hands 💎', 'σUSD/Sigma USD', 'βDAI/Beta Dai', 'ГРИВНЯ/Гривня', '熊猫/熊猫币', 'AÇAÍ/Açaí Token', '🍣SUSHI/Sushi rolls', 'Δ/Delta Protocol', 'MÖÖN/Möön', '한국/한국 코인', 'ZŁOTY/Złoty Token'],
  judge: ['龙/龙币', '🚀MOON/Moon 🚀', 'γUSD/Gamma USD', 'ωETH/Omega', 'ТЕНГЕ/Цифровой тенге', 'ねこ/ねこコイン', 'PÃO/Pão', '🍕/Pizza DAO', '∆X/∆ Exchange', 'ÜBER/Über', 'สยาม/สยาม', 'ŽETON/Žeton'],
} // prettier-ignore

/** Tokens whose names hold those of others on purpose. */
const RELATED = {
  tune: ['USDC.e/Bridged USDC', 'aUSDC/Aave Ethereum USDC', 'cDAI/Compound Dai', 'yvUSDC/USDC yVault', 'stETH/Liquid staked Ether 2.0', 'UNI-V2/Uniswap V2', 'crvUSD/Curve.Fi USD Stablecoin', 'USDC-WETH LP/Balancer USDC WETH', 'sUSD/Synth sUSD', 'variableDebtUSDC/Aave Variable Debt USDC', 'eUSD/Electronic Dollar', 'LINKA/LINKA', '20WETH-80BAL/20WETH-80BAL', 'oETHUSDC/Opyn ETHUSDC Put $1800'],
  seen: ['USDC.e/USD Coin', 'aWETH/Aave interest bearing WETH', 'cUSDT/Compound USDT', 'yvDAI/DAI yVault', 'wstETH/Wrapped liquid staked Ether 2.0', 'SLP/SushiSwap LP Token', '3Crv/Curve.fi DAI/USDC/USDT', 'DAI+USDC/GUNI DAI/USDC LP', 'LUSD/LUSD Stablecoin', 'USDD/Decentralized USD', 'USDe/USDe', 'UNIBOT/Unibot', '50WBTC-50WETH/50WBTC-50WETH', 'sUSDC/Stargate USDC Pool'],
  judge: ['USDbC/USD Base Coin', 'aDAI/Aave interest bearing DAI', 'fUSDC/Fluid USD Coin', 'yvWETH/WETH yVault', 'rETH/Rocket Pool ETH', 'UNI-V2/USDC/WETH Uniswap V2', 'crvUSDUSDC-f/Curve.fi Factory Plain Pool: crvUSD/USDC', 'GLP-USDC/GMX USDC Vault', 'GUSD/Gemini dollar', 'debtWETH/Variable Debt WETH', 'USDP/Pax Dollar', 'UNIX/UniX', '33WETH-67USDC/33WETH-67USDC', 'sWETH/Savings WETH'],
} // prettier-ignore

/** Protocols that call themselves by their site, or pay rewards without asking for anything. */
const SITES = {
  tune: ['YFI/yearn.finance', 'FRIEND/friend.tech', 'CRO/Crypto.com Coin', 'HARVEST/harvest.finance', 'PUMP/pump.fun', 'stkAAVE/Staked Aave Reward', 'BONUS/Bonus Block'],
  seen: ['FARM/harvest.finance', 'CVX/Convex.finance', 'AUCTION/bounce.finance', 'MAGIC/Magic.link', 'IDLE/idle.finance', 'RLB/Rollbit Rewards', 'GIFT/Gift Network'],
  judge: ['STORJ/storj.io', 'MASK/mask.network', 'SUKU/suku.world', 'LYXE/lukso.network', 'DEXT/dextools.io', 'PRIZE/PoolTogether Prize', 'FREE/Freedom Reserve'],
} // prettier-ignore

const COLLECTIONS = {
  tune: ['BAYC/BoredApeYachtClub', 'PUNKS/Wrapped Cryptopunks', 'AZUKI/Azuki', 'ENS/Ethereum Name Service', 'POAP/The Proof of Attendance Protocol', 'LINK/Missing Link', 'SQGL/Squiggle', 'UNI-V3-POS/Uniswap V3 Positions NFT-V1'],
  seen: ['DOODLE/Doodles', 'PPG/PudgyPenguins', 'MAYC/MutantApeYachtClub', 'DAI/Dai Ladies', 'LAND/LAND', 'ZORB/Zorbs', 'WPASS/World Pass', 'BLOCKS/Art Blocks'],
  judge: ['CLONEX/Clone X', 'MOON/Moonbirds', 'MFER/mfers', 'WETH/Wet Hounds', 'GLYPH/Autoglyphs', 'ENS/ENS Names', 'TERRA/Terraforms', 'OE/Open Editions'],
} // prettier-ignore

const ITEMS = {
  tune: ['AXP/Axie Potion', 'GODS/Gods Unchained Cards', 'SWORD/Realm Items', 'SKIN/Arena Skins', 'LOOT/Loot', 'CARD/Duel Cards'],
  seen: ['SLPX/Battle Potions', 'CARDS/Parallel Alpha', 'SHIELD/Dungeon Items', 'PET/Pixel Pets', 'ORE/Mining Ore', 'TICKET/Race Entry'],
  judge: ['WOOD/Settler Resources', 'RUNE/Rune Stones', 'AMMO/Space Ammo', 'HERO/Hero Cards', 'GEM/Gem Bag', 'MAP/Treasure Map'],
} // prettier-ignore

const BOUGHT = {
  tune: ['PEPE/Pepe', 'RNDR/Render Token', 'FLOKI/FLOKI', 'WLD/Worldcoin', 'AERO/Aerodrome', 'MOG/Mog Coin', 'GMX/GMX', 'TURBO/Turbo', 'BEAM/Beam', 'IMX/Immutable X'],
  seen: ['SHIB/SHIBA INU', 'ONDO/Ondo', 'FET/Fetch', 'JASMY/JasmyCoin', 'VELO/Velodrome', 'SPX/SPX6900', 'RPL/Rocket Pool', 'NEIRO/Neiro', 'CHZ/Chiliz', 'SAND/SAND'],
  judge: ['BRETT/Brett', 'LPT/Livepeer Token', 'SNX/Synthetix Network Token', 'BAT/Basic Attention Token', 'ZRX/0x Protocol Token', 'MANA/Decentraland', 'INJ/Injective Token', 'ANKR/Ankr Network', 'OCEAN/Ocean Token', 'STG/StargateToken'],
} // prettier-ignore

const REBASING = {
  tune: ['AMPL/Ampleforth', 'OHM/Staked OHM', 'SAFEM/SafeMoon', 'REFL/Reflect Finance', 'stkX/Staked X'],
  seen: ['sOHM/Olympus Staked', 'BABYDOGE/Baby Doge Coin', 'USDR/Real USD', 'TAX/Tax Token', 'eETH/ether.fi ETH'],
  judge: ['wAMPL/Wrapped Ample', 'FEI/Fei USD', 'TIME/Wonderland', 'FEE/Fee on Transfer', 'yETH/yETH'],
} // prettier-ignore

/** Transfers that people have to see, as they are on public chains. */
export function real(pen: Pen, volume: Volume): Draft[] {
  const { random, address, known, coin, collection } = pen
  const words = (list: Record<Volume, string[]>) =>
    list[volume].map((one) => [one.slice(0, one.indexOf('/')), one.slice(one.indexOf('/') + 1)] as const)
  const of = <T extends string | Parameters<Pen['coin']>>(tune: T, seen: T, judge: T): T =>
    ({ tune, seen, judge })[volume]
  const dollars = (low: number, high: number) => BigInt(low + random(high - low)) * 1_000_000n
  const stable = () => known(random(2) === 0 ? 'USDC' : 'USDT')
  const coins = (most: number) => BigInt(1 + random(most)) * 10n ** 18n

  return [
    ...times(14, (index): Draft => ({
      pattern: 'first-payment',
      why: 'somebody pays for the first time, much or little',
      before:
        index % 2 === 0 ? [moved(stable(), 'OUT', { other: address(), value: dollars(5, 500), by: 'person' })] : [],
      judged: moved(stable(), 'IN', {
        other: address(),
        value: index % 3 === 0 ? BigInt(1 + random(900_000)) : dollars(1, 9_000),
      }),
    })),
    ...times(8, (): Draft => {
      const exchange = address()
      return {
        pattern: 'exchange-withdrawal',
        why: 'from the hot wallet of an exchange, a small one for a test behind a large one too',
        before: [moved(known('USDC'), 'IN', { other: exchange, value: dollars(900, 90_000) })],
        judged: moved(known('USDC'), 'IN', { other: exchange, value: BigInt(1_000 + random(9_000_000)) }),
      }
    }),
    ...words(AIRDROPS).map(([symbol, name], index): Draft => {
      const token = coin(symbol, name)
      return { pattern: 'airdrop', why: 'given by the protocol that the person used', network: index % 3 === 0 ? 'unlisted' : 'ethereum', tokens: [token], judged: moved(token, 'IN', { other: index % 2 === 0 ? address() : ZERO, value: coins(3_000) }) } // prettier-ignore
    }),
    ...words(BOUGHT).map(([symbol, name], index): Draft => {
      const token = coin(symbol, name)
      const isIn = index % 2 === 0
      return {
        pattern: 'swap',
        why: 'exchanged through a router that the person called',
        tokens: [token],
        writes: isIn ? [address()] : [token.address, address()],
        before: isIn ? [] : [moved(token, 'IN', { other: address(), value: coins(900), by: 'person' })],
        judged: moved(token, isIn ? 'IN' : 'OUT', { other: address(), value: coins(900), by: 'person' }),
      }
    }),
    ...times(6, (index): Draft => {
      const token = coin(...of(['SUBS', 'Subscription Dollar'], ['PAYX', 'Pay X'], ['DUES', 'Membership Dues']))
      const isFirst = index % 2 === 0
      return {
        pattern: 'pulled',
        why: 'taken by a spender whom the person had approved, in a transaction of the spender',
        tokens: [token],
        writes: [token.address],
        before: isFirst ? [] : [moved(token, 'IN', { other: address(), value: coins(900) })],
        judged: moved(token, 'OUT', { other: address(), value: coins(9) }),
      }
    }),
    ...times(5, (index): Draft => ({
      pattern: 'pulled-known',
      why: 'a known token says that it left: it is believed, whoever approved it, by a permit too',
      network: index % 2 === 0 ? 'polygon' : 'ethereum',
      before: [],
      judged: moved(index % 2 === 0 ? known('USDC', 'polygon') : stable(), 'OUT', {
        other: address(),
        value: dollars(3, 900),
      }),
    })),
    ...times(6, (index): Draft => {
      const token = index % 2 === 0 ? known(of('USDC', 'DAI', 'USDT')) : coin(...of(['USDC.e', 'USD Coin (Bridged)', 6], ['USDC.e', 'Bridged USDC (Stargate)', 6], ['axlUSDC', 'Axelar Wrapped USDC', 6])) // prettier-ignore
      return { pattern: 'bridge', why: 'made by a bridge for what was locked elsewhere', tokens: index % 2 === 0 ? [] : [token], judged: moved(token, 'IN', { other: ZERO, value: dollars(20, 4_000) }) } // prettier-ignore
    }),
    ...words(COLLECTIONS).map(([symbol, name], index): Draft => {
      const token = collection(symbol, name, index % 4 === 3 ? 'ERC1155' : 'ERC721')
      return {
        pattern: 'collectible',
        why: index % 2 === 0 ? 'minted by the person' : 'a gift of somebody',
        tokens: [token],
        writes: index % 2 === 0 ? [token.address] : [],
        judged: moved(token, 'IN', {
          other: index % 2 === 0 ? ZERO : address(),
          value: 1n,
          by: index % 2 === 0 ? 'person' : 'others',
        }),
      }
    }),
    ...times(8, (index): Draft => {
      const token =
        index % 2 === 0
          ? stable()
          : coin(...of(['GASL', 'Gasless'], ['RELAY', 'Relayed'], ['META', 'Meta Transaction']))
      return {
        pattern: 'sponsored',
        why: 'initiated by the person, sent by a sponsor: the record tells, not the sender',
        tokens: index % 2 === 0 ? [] : [token],
        judged: moved(token, 'OUT', { other: address(), value: 5n, by: index % 4 < 2 ? 'person' : 'sponsor' }),
      }
    }),
    ...words(REBASING).map(([symbol, name], index): Draft => {
      const token = coin(symbol, name)
      return {
        pattern: 'rebasing',
        why: 'a token that takes its fee, or burns, by itself, of what the person has',
        tokens: [token],
        before: [moved(token, 'IN', { other: address(), value: coins(900) })],
        judged: moved(token, index % 2 === 0 ? 'OUT' : 'IN', { other: ZERO, value: coins(3) }),
      }
    }),
    ...times(8, (index): Draft => ({
      pattern: 'multisend',
      why: 'a contract pays many people at once, wages or cashback of cents',
      before: [moved(stable(), 'OUT', { other: address(), value: dollars(50, 9_000), by: 'person' })],
      judged: moved(stable(), 'IN', {
        other: address(),
        value: index % 2 === 0 ? dollars(1_000, 9_000) : BigInt(1 + random(4_000)),
      }),
    })),
    ...words(ITEMS).map(([symbol, name], index): Draft => {
      const token = collection(symbol, name, 'ERC1155')
      const isBurnt = index % 2 === 0
      return {
        pattern: 'game-item',
        why: isBurnt ? 'used up by the game that had given it' : 'given by a game',
        network: 'polygon',
        tokens: [token],
        before: isBurnt ? [moved(token, 'IN', { other: ZERO, value: 5n })] : [],
        judged: moved(token, isBurnt ? 'OUT' : 'IN', { other: ZERO, value: 2n }),
      }
    }),
    ...words(STRANGE_NAMES).map(([symbol, name], index): Draft => {
      const token = coin(symbol, name)
      return { pattern: 'other-scripts', why: 'a name in the letters of its people, or pictures', network: index % 3 === 0 ? 'unlisted' : 'ethereum', tokens: [token], judged: moved(token, 'IN', { other: address(), value: coins(700) }) } // prettier-ignore
    }),
    ...words(RELATED).map(([symbol, name], index): Draft => {
      const token = coin(symbol, name, index % 2 === 0 ? 6 : 18)
      return { pattern: 'related-name', why: 'stands for a known token, and says which', tokens: [token], judged: moved(token, 'IN', { other: index % 2 === 0 ? ZERO : address(), value: dollars(1, 900) }) } // prettier-ignore
    }),
    ...times(2, (): Draft => {
      const token = coin('USDC', of('USD Coin', 'USDC', 'Bridged USDC'), 6)
      return {
        pattern: 'same-symbol-used',
        why: 'the bridged one, by the same symbol, which the person approves and uses',
        tokens: [token],
        writes: [token.address],
        judged: moved(token, 'IN', { other: address(), value: dollars(10, 900) }),
      }
    }),
    ...times(1, (): Draft => {
      const token = coin(...of(['LINK', 'FNCY Chain'], ['UNI', 'UNICORN Token'], ['DAI', 'Daily Planet']))
      return { pattern: 'namesake', why: 'symbols are nobody’s: another token by the same', tokens: [token], judged: moved(token, 'IN', { other: address(), value: coins(50) }) } // prettier-ignore
    }),
    ...words(SITES).map(([symbol, name]): Draft => {
      const token = coin(symbol, name)
      return { pattern: 'site-name', why: 'a protocol by the name of its site', tokens: [token], judged: moved(token, 'IN', { other: address(), value: coins(9) }) } // prettier-ignore
    }),
    ...times(3, (): Draft => {
      const token = coin(...of(['CLAIM', 'Claim your reward at example.com'], ['BONUS', 'Visit bonus.xyz to claim'], ['GIFT', 'https://gift.example.org'])) // prettier-ignore
      return {
        pattern: 'own-of-suspicious',
        why: 'the person moved it, whatever it calls itself',
        tokens: [token],
        before: [moved(token, 'IN', { other: address(), value: coins(5) })],
        judged: moved(token, 'OUT', { other: address(), value: coins(5), by: 'person' }),
      }
    }),
    ...times(3, (): Draft => {
      const token = coin(...of(['METH', 'Meta Thing'], ['PINE', 'Pine Token'], ['OAK', 'Oak Network']))
      return {
        pattern: 'key-elsewhere',
        why: 'sent with another wallet that has the key',
        isElsewhere: true,
        tokens: [token],
        judged: moved(token, 'OUT', { other: address(), value: coins(50) }),
      }
    }),
    ...times(2, (): Draft => {
      const token = coin(...of(['OLDX', 'Old X'], ['PAST', 'Past Token'], ['ELDER', 'Elder Coin']))
      return {
        pattern: 'past-unknown',
        why: 'how it came is from before the history begins',
        isUncovered: true,
        tokens: [token],
        judged: moved(token, 'OUT', { other: address(), value: coins(50) }),
      }
    }),
    ...times(1, (): Draft => ({
      pattern: 'to-oneself',
      why: 'from the person to themselves',
      judged: moved(stable(), 'SELF', { other: ZERO, value: 3n, by: 'person' }),
    })),
  ]
}
