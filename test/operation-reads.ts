import type { Hex } from '../src/ids.ts'
import { readTransaction } from '../src/transactions/read/read.ts'
import type { Writer, Writing } from './writing.ts'

/** What tests of operations do and look at again and again. @param at  opened by then */
export const operationsOf = (at: () => Writing) => {
  const shown = (writer: Writer, id: string) => readTransaction(at().first.app, writer, id)
  return {
    add: (writer: Writer, amount = 1, key?: string) => at().add(at().first, writer, amount, key),
    shown,
    stateOf: async (writer: Writer, id: string) => (await shown(writer, id)).state,
    rowOf: (id: string) => at().db.selectFrom('operations').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),
    codeOf: ({ address }: Writer) => at().rpc<Hex>('eth_getCode', address, 'latest'),
  }
}
