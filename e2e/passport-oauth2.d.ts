/** The package ships no types; this much of it the test uses. */
declare module 'passport-oauth2' {
  export default class OAuth2Strategy {
    constructor(
      options: Record<string, unknown>,
      verify: (
        accessToken: string,
        refreshToken: string,
        profile: unknown,
        done: (error: unknown, user?: unknown) => void,
      ) => void,
    )
    authenticate(request: never, options: object): void
  }
}
