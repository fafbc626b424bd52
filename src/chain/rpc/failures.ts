/** The node understood the request and responded with an error: code, text and, for reverts, data. */
export class RpcError extends Error {
  readonly rpcCode: number
  readonly data: unknown
  constructor(rpcCode: number, message: string, data: unknown) {
    super(message)
    this.name = 'RpcError'
    this.rpcCode = rpcCode
    this.data = data
  }
}

/**
 * There is no usable response: the connection was refused or dropped, or the response is not JSON or has status 5xx.
 * For a broadcast, the outcome is then unknown, never failed.
 */
export class RpcUnavailable extends Error {
  readonly timedOut: boolean
  constructor(message: string, options: { cause?: unknown; timedOut: boolean }) {
    super(message, { cause: options.cause })
    this.name = 'RpcUnavailable'
    this.timedOut = options.timedOut
  }
}

/** The node's response cannot be right, or not yet: retry later, and never treat it as empty. */
export class InvalidResponse extends RpcUnavailable {
  constructor(message: string) {
    super(message, { timedOut: false })
    this.name = 'InvalidResponse'
  }
}

/** The node's address now serves another chain. */
export class WrongChain extends RpcUnavailable {
  constructor() {
    super('the node serves another chain than the one this database was created for', { timedOut: false })
    this.name = 'WrongChain'
  }
}

/** The response was longer than the limit. Another node would send the same. */
export class RpcTooLarge extends RpcUnavailable {
  constructor() {
    super('the answer of the node is too large', { timedOut: false })
    this.name = 'RpcTooLarge'
  }
}
