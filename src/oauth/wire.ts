import Type, { type Static } from 'typebox'

/** The sign-ins that ended when a user was signed out everywhere, as an operator sees them. */
export const SignedOut = Type.Object(
  {
    userId: Type.String(),
    browsers: Type.Integer({ description: 'Number of ended browser sessions' }),
    applications: Type.Integer({ description: 'Number of ended application sign-ins' }),
  },
  { title: 'SignedOut', examples: [{ userId: 'GITHUB-583231', browsers: 1, applications: 2 }] },
)
export type SignedOut = Static<typeof SignedOut>
