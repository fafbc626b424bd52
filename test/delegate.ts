import type { DelegateName } from '../src/ids.ts'

/** What code accounts delegate to where a test does not say. TEST_DELEGATE=calibur has what is tested for one tried for the other. */
export const TESTED_DELEGATE: DelegateName = process.env.TEST_DELEGATE === 'calibur' ? 'calibur' : 'chatelaine'
