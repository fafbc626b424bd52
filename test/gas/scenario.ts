import { encodeErrorResult } from 'viem'
import type { Hex } from '../../src/ids.ts'
import { artefact, said, type Sent, type Stage } from './stage.ts'

/** A sentence of docs/reference/gas-contracts.md, and how it is looked at on a chain of its own. */
export type Scenario = readonly [sentence: string, look: (stage: Stage) => Promise<void>]

export const words = ({ outcomes }: Sent): string[] => outcomes.map(said)
export const failed = (index: number, reason: Hex): string => `Failed CallFailed ${index} ${reason}`

/** What `require` with a text reverts with. */
export const textError = (text: string): Hex =>
  encodeErrorResult({ abi: [{ type: 'error', name: 'Error', inputs: [{ type: 'string' }] }], args: [text] })

/** An error of a contract that has no arguments. */
export const errorOf = (contract: string, errorName: string): Hex =>
  encodeErrorResult({ abi: artefact(contract).abi, errorName })
