/**
 * How a provider deviates from OpenID Connect as we use it. Plain data: another provider is another row below, not
 * another branch.
 */
export type Dialect = {
  /** endpoints of a provider without id tokens, which is asked for the profile instead; absent: discovery */
  endpoints?: Endpoints
  /** `basic` sends the secret in a header, not in the body (RFC 6749 §2.3.1) */
  proof?: 'basic' | 'post'
  /** member of the profile response that holds the profile itself */
  wrapper?: string
  /** URL of the picture, `{field}` being a field of the profile; no picture if one is missing */
  pictureTemplate?: string
  emailClaim?: string
  emailVerifiedClaim?: string
  /** parameters that make the provider ask the user again; default: `prompt=login` and `max_age=0` */
  askAgain?: Record<string, string>
  /** parameter that names the expected user; null: none; default: `login_hint` */
  hintParameter?: string | null
  /** it rejects the `code_verifier` of PKCE: only `state` binds a code to the browser */
  refusesPkce?: true
  /** its userinfo endpoint adds nothing to its id tokens */
  hasAllInIdToken?: true
  /** the name is a field of the callback, at the first sign-in only */
  hasNameInAnswer?: true
}

export type Endpoints = {
  authorization: string
  token: string
  profile: string
  /** list of `{ email, primary, verified }`, if the profile does not say which address is verified */
  emails?: string
}

export type ProviderPreset = {
  label: string
  /** `{tenant}` is replaced by that setting. A provider without id tokens has no issuer: this name is permanent */
  issuer: string
  scopes: string[]
  subjectClaim: string
  /** form of every user's id there; without it, no account is created before its user signs in */
  subjectForm?: RegExp
  usernameClaims: string[]
  pictureClaim: string
  parameters: Record<string, string>
  dialect: Dialect
  /** settings besides client id and secret */
  needs: 'secret' | 'secret and tenant' | 'apple key'
}

const openidClaims = { subjectClaim: 'sub', pictureClaim: 'picture' }

/** Providers that need only a registration. docs/operate/identity-providers.md says what each one supports. */
export const presets = {
  // Display names, not `preferred_username` or `email`: those are addresses, and other users see names.
  google: {
    label: 'Google',
    issuer: 'https://accounts.google.com',
    scopes: ['openid', 'profile', 'email'],
    ...openidClaims,
    subjectForm: /^[1-9]\d{19,20}$/,
    usernameClaims: ['name'],
    parameters: {},
    // Google rejects `prompt=login`.
    dialect: { askAgain: { prompt: 'select_account' } },
    needs: 'secret',
  },
  apple: {
    label: 'Apple',
    issuer: 'https://appleid.apple.com',
    scopes: ['openid', 'name', 'email'],
    ...openidClaims,
    subjectForm: /^\d{6}\.[\da-f]{32}\.\d{4}$/,
    usernameClaims: ['name'],
    // If a name or an e-mail address is requested, Apple responds by POST only.
    parameters: { response_mode: 'form_post' },
    dialect: { askAgain: {}, hintParameter: null, hasNameInAnswer: true },
    needs: 'apple key',
  },
  // No picture: Microsoft's picture URL needs an access token. No `subjectForm`: `sub` differs for each registration,
  // so nobody outside knows it.
  microsoft: {
    label: 'Microsoft',
    issuer: 'https://login.microsoftonline.com/{tenant}/v2.0',
    scopes: ['openid', 'profile', 'email'],
    subjectClaim: 'sub',
    pictureClaim: 'none',
    usernameClaims: ['name'],
    parameters: {},
    dialect: { hasAllInIdToken: true },
    needs: 'secret and tenant',
  },
  discord: {
    label: 'Discord',
    issuer: 'urn:chatelaine:preset:discord',
    scopes: ['identify', 'email'],
    subjectClaim: 'id',
    subjectForm: /^[1-9]\d{16,19}$/,
    usernameClaims: ['username'],
    pictureClaim: 'none',
    parameters: {},
    dialect: {
      endpoints: {
        authorization: 'https://discord.com/oauth2/authorize',
        token: 'https://discord.com/api/oauth2/token',
        profile: 'https://discord.com/api/v10/users/@me',
      },
      pictureTemplate: 'https://cdn.discordapp.com/avatars/{id}/{avatar}.png',
      emailVerifiedClaim: 'verified',
      askAgain: { prompt: 'consent' },
      hintParameter: null,
    },
    needs: 'secret',
  },
  twitch: {
    label: 'Twitch',
    issuer: 'https://id.twitch.tv/oauth2',
    scopes: ['openid', 'user:read:email'],
    ...openidClaims,
    subjectForm: /^[1-9]\d{0,11}$/,
    usernameClaims: ['preferred_username'],
    // Twitch includes in the id token only the claims that are named here.
    parameters: {
      claims: JSON.stringify({
        id_token: { email: null, email_verified: null, picture: null, preferred_username: null },
      }),
    },
    dialect: { askAgain: { force_verify: 'true' }, hintParameter: null },
    needs: 'secret',
  },
  github: {
    label: 'GitHub',
    issuer: 'urn:chatelaine:preset:github',
    scopes: ['read:user', 'user:email'],
    subjectClaim: 'id',
    subjectForm: /^[1-9]\d{0,11}$/,
    usernameClaims: ['login'],
    pictureClaim: 'avatar_url',
    parameters: {},
    dialect: {
      endpoints: {
        authorization: 'https://github.com/login/oauth/authorize',
        token: 'https://github.com/login/oauth/access_token',
        profile: 'https://api.github.com/user',
        emails: 'https://api.github.com/user/emails',
      },
      askAgain: { prompt: 'select_account' },
      hintParameter: 'login',
    },
    needs: 'secret',
  },
  x: {
    label: 'X',
    issuer: 'urn:chatelaine:preset:x',
    scopes: ['users.read', 'tweet.read'],
    subjectClaim: 'id',
    subjectForm: /^[1-9]\d{0,19}$/,
    usernameClaims: ['username'],
    pictureClaim: 'profile_image_url',
    parameters: {},
    dialect: {
      endpoints: {
        authorization: 'https://x.com/i/oauth2/authorize',
        token: 'https://api.x.com/2/oauth2/token',
        profile: 'https://api.x.com/2/users/me?user.fields=profile_image_url',
      },
      proof: 'basic',
      wrapper: 'data',
      askAgain: {},
      hintParameter: null,
    },
    needs: 'secret',
  },
  // Its id tokens lack the nonce and name another issuer than its discovery document, so the profile is requested
  // instead. No `subjectForm`: `sub` differs for each registration.
  linkedin: {
    label: 'LinkedIn',
    issuer: 'urn:chatelaine:preset:linkedin',
    scopes: ['openid', 'profile', 'email'],
    ...openidClaims,
    usernameClaims: ['name'],
    parameters: {},
    dialect: {
      endpoints: {
        authorization: 'https://www.linkedin.com/oauth/v2/authorization',
        token: 'https://www.linkedin.com/oauth/v2/accessToken',
        profile: 'https://api.linkedin.com/v2/userinfo',
      },
      refusesPkce: true,
      askAgain: {},
      hintParameter: null,
    },
    needs: 'secret',
  },
} as const satisfies Record<string, ProviderPreset>

export type PresetName = keyof typeof presets

export const isPresetName = (text: string): text is PresetName => Object.hasOwn(presets, text)
