import { DELEGATES, type DelegateName } from '../ids.ts'

/** Addresses of a delegate, which is the code that accounts delegate to, and of its dispatcher. 20 bytes each. */
export type GasPair = { dispatcher: Buffer; delegate: Buffer }

/**
 * Addresses of both contracts, equal on every network. They are constants so that the signer, which holds keys, reads
 * no files of code. `readGasContracts` computes the same addresses from the code (addresses.test.ts).
 */
export const GAS_PAIRS: Readonly<Record<DelegateName, GasPair>> = {
  chatelaine: {
    dispatcher: Buffer.from('d6f56f74a87aa8148f59287bcb63b4b8132b53e5', 'hex'),
    delegate: Buffer.from('a91b807e52350da6f108bf1ccc80d9e0f9019267', 'hex'),
  },
  calibur: {
    dispatcher: Buffer.from('b07b582605170b8d1c2653dd3ed942b110b65a81', 'hex'),
    delegate: Buffer.from('000000009b1d0af20d8c6d0a44e162d11f9b8f00', 'hex'),
  },
}

/** Returns the delegate of a dispatcher; null if the dispatcher is unknown. */
export const delegateNameOf = (dispatcher: Uint8Array): DelegateName | null =>
  DELEGATES.find((name) => GAS_PAIRS[name].dispatcher.equals(dispatcher)) ?? null

/** Returns whether an address is code that accounts may delegate to. */
export const isDelegate = (address: Uint8Array): boolean =>
  DELEGATES.some((name) => GAS_PAIRS[name].delegate.equals(address))
