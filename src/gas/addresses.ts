/**
 * Where the two contracts are on every network, 20 bytes each. Written down, so that what has keys reads no files of code: they are
 * what `readGasContracts` computes from the code (addresses.test.ts).
 */
export const DISPATCHER = Buffer.from('d6f56f74a87aa8148f59287bcb63b4b8132b53e5', 'hex')
export const DELEGATE = Buffer.from('a91b807e52350da6f108bf1ccc80d9e0f9019267', 'hex')
