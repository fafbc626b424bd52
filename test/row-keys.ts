import type { App } from '../src/app.ts'
import { newRowKey, rowKeysOf } from '../src/oauth/row-keys.ts'
import type { RowKeys } from '../src/store/row-mac.ts'
import { openTelemetry } from '../src/telemetry.ts'

/** Of an authorization server that believes only rows it wrote. */
export const madeRowKeys = (): RowKeys => rowKeysOf([newRowKey()])

/** What is beside a database where rows are read and written under MACs. */
export const guarded = (): Pick<App, 'rowKeys' | 'telemetry'> => ({
  rowKeys: madeRowKeys(),
  telemetry: openTelemetry('test', 'silent'),
})
