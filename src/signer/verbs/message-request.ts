import { readMessage, MessageInvalid, type Message } from '../../messages/message.ts'
import { Refusal } from '../refusal.ts'
import {
  bad,
  readAccessToken,
  readAddress,
  readApproval,
  readFields,
  readInteger,
  readIntentId,
  readRequestHash,
} from '../request.ts'

/** A parsed message request: every field is present and in range, and there are no others. */
export type MessageOrder = {
  intentId: string
  accessToken: string
  /** the user's approval of exactly this request; null if the request has none */
  approval: string | null
  chainId: number
  from: Buffer
  message: Message
  requestHash: Buffer | null
}

const CONTENTS = ['text', 'hex', 'typedData'] as const
const FIELDS = new Set<string>(['intentId', 'accessToken', 'approval', 'chainId', 'from', 'requestHash', ...CONTENTS])

/**
 * Parses a message request. Coerces and ignores nothing, like `readSignRequest`.
 * @throws bad_request  naming the field; invalid_message, invalid_typed_data
 */
export function readMessageRequest(request: unknown): MessageOrder {
  const fields = readFields(request, FIELDS)
  return {
    intentId: readIntentId(fields.intentId),
    accessToken: readAccessToken(fields.accessToken),
    approval: readApproval(fields.approval),
    chainId: readInteger('chainId', fields.chainId, 1),
    from: readAddress('from', fields.from),
    message: readContent(fields),
    requestHash: readRequestHash('send', fields.requestHash),
  }
}

function readContent(fields: Record<string, unknown>): Message {
  const [name, ...others] = CONTENTS.filter((one) => fields[one] !== undefined)
  if (name === undefined || others.length > 0) throw bad('expected one of text, hex and typedData')
  if (typeof fields[name] !== 'string') throw bad(`${name} is not text`)
  return withRefusals(() => readMessage({ [name]: fields[name] } as Parameters<typeof readMessage>[0]))
}

/**
 * Runs the work, and turns its errors about invalid messages into refusals. @throws invalid_message, invalid_typed_data
 */
export function withRefusals<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof MessageInvalid)) throw error
    const { code, pointer, problem } = error
    throw new Refusal(code, `The message is not valid: ${problem}. Nothing was signed.`, { pointer })
  }
}
