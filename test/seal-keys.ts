import type { App } from '../src/app.ts'
import { newSealKey, sealKeysOf } from '../src/oauth/seal-keys.ts'
import type { SealKeys } from '../src/store/seal.ts'
import { openTelemetry } from '../src/telemetry.ts'

/** Of an authorization server, which seals rows and believes only those. */
export const madeSealKeys = (): SealKeys => sealKeysOf([newSealKey()])

/** Of a program that knows no key: linked identities lead nowhere, first ones to their own accounts, and rows under a MAC count. */
export const noSealKeys: SealKeys = { signing: null, known: new Map(), macs: null }

/** What is beside a database where rows are read and written under seals. */
export const guarded = (): Pick<App, 'sealKeys' | 'telemetry'> => ({
  sealKeys: madeSealKeys(),
  telemetry: openTelemetry('test', 'silent'),
})
