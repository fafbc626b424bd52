export { createClient } from './client.ts'
export type {
  BalancesFacts,
  BatchCall,
  BlockTag,
  Client,
  EncodedCall,
  HistoryFilter,
  HistoryRange,
  MessageInput,
  NftsRange,
  ReadCall,
  ReadOutcome,
  SendRequest,
  SentTransfer,
  To,
  TransferRequest,
  TransferSimulation,
  TypedData,
  VerifyRequest,
  Write,
  WriteCall,
  WriteSimulation,
} from './calls.ts'
export type { AbiSource, ContractCall, FunctionOf, ResultOf } from './abi.ts'
export {
  ApprovalRequired,
  Busy,
  ClientError,
  CursorExpired,
  InvalidInput,
  Refused,
  Reverted,
  SignedOut,
  Unknown,
} from './errors.ts'
export type { ErrorCode, ErrorFacts } from './errors.ts'
export type { EventPage, EventsOptions } from './events.ts'
export type { List, Page } from './list.ts'
export type { CallOptions, ClientOptions, Clock, OpenApproval, WriteOptions } from './request.ts'
export type { Session, SessionState } from './session.ts'
export type { Submission, TransactionHandle, WaitOptions } from './transaction.ts'
export { InvalidWebhook, verifyWebhook } from './webhook.ts'
export type { ReceivedWebhook, VerifyWebhookOptions } from './webhook.ts'
export type * from './wire.ts'
