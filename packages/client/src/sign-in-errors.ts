import * as oauth from 'oauth4webapi'
import { ClientError } from './errors.ts'

/** The user closed the window or did not allow the access. */
export class SignInCancelled extends ClientError {
  override readonly name = 'SignInCancelled'
}

/** The sign-in failed. `code`: that of the authorization server, or of this client. */
export class SignInFailed extends ClientError {
  override readonly name = 'SignInFailed'
}

/** Makes an error without the `cause` of the library's, which can have tokens. */
export function failureOf(error: unknown): unknown {
  if (error instanceof ClientError) return error
  if (error instanceof oauth.AuthorizationResponseError) {
    const { error: code, error_description: message = 'The sign-in failed.' } = error
    return code === 'access_denied' ? new SignInCancelled({ code, message }) : new SignInFailed({ code, message })
  }
  if (error instanceof oauth.ResponseBodyError)
    return new SignInFailed({ code: error.error, message: error.error_description ?? 'The sign-in failed.' })
  if (
    error instanceof oauth.OperationProcessingError ||
    error instanceof oauth.UnsupportedOperationError ||
    error instanceof oauth.WWWAuthenticateChallengeError
  )
    return new SignInFailed({ code: 'invalid_answer', message: 'The answer of the authorization server is not valid.' })
  return error
}
