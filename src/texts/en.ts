import type { Rich } from './rich.ts'

/** English, and the shape of every other language: a text that one of them lacks does not compile. */
export const en = {
  /** for `lang`, for the browser’s wish and for how numbers and times are written */
  language: 'en',
  /** how times are written: day, month and year in this order */
  locale: 'en-GB',
  around: {
    notice: 'Notice',
    account: 'Your account',
    links: 'About this service',
    support: 'Support',
    privacy: 'Privacy',
    terms: 'Terms',
  },
  networks: {
    /** a network whose coins are worth something */
    main: (family: string) => `${family} network`,
    test: (family: string) => `${family} test network`,
    testNamed: (family: string, name: string) => `${family} test network (${name})`,
    unknown: (chainId: string) => `network ${chainId}`,
  },
  front: {
    title: 'Wallet accounts',
    what: 'People sign in with an account they already have. This service keeps a wallet for each of them, and applications can use it on their behalf, within the limits they allow.',
    account: 'See what you have, what was done on your behalf, and which applications have access.',
    open: 'Open your account',
    developers: 'For developers',
    api: 'API',
    reference: 'reference',
    openapi: 'OpenAPI 3.1',
    errors: 'errors',
    issuer: 'Sign-in',
    networks: 'Networks',
    chainId: (name: string, chainId: string) => `${name} (chain id ${chainId})`,
    explorer: 'Explorer',
    blocks: 'blocks of the development chain',
  },
  missing: {
    title: 'Page not found',
    heading: 'There is nothing at this address',
    hint: 'The link may be outdated or incomplete. If an application sent you here, go back to it and try again.',
    front: 'Start page',
  },
  development: {
    strip: 'Development installation: anyone can sign in as anyone.',
    title: 'Development sign-in',
    notice: 'Development only: no password, no real identity',
    heading: 'Who do you want to be?',
    hint: 'This sign-in exists in development only. Any name will do; the same name is always the same person.',
    username: 'User name',
    invalid: 'This is not a valid user name.',
    rule: '1 to 64 letters, digits, dots, hyphens or underscores, beginning with a letter or a digit. Case does not matter.',
    signIn: 'Sign in',
    cancel: 'Cancel',
    over: 'This sign-in is no longer valid',
    overHint: 'Go back to the application and sign in again.',
  },
  chooser: {
    title: (application: string) => `Sign in to ${application}`,
    ownTitle: 'Sign in to your account',
    hint: 'with an account you already have.',
    worksOn: (application: string, network: string): Rich => [`${application} uses the `, { strong: network }, '.'],
    continueWith: (provider: string) => `Continue with ${provider}`,
    development: 'This is a development installation: anyone can sign in as anyone. Nothing here has any value.',
    cancel: 'Cancel',
    cancelTo: (application: string) => `Cancel and go back to ${application}`,
    back: 'Back to the sign-in page',
  },
  consent: {
    title: (application: string) => `Allow ${application}`,
    question: (application: string) => `Allow ${application} to use your account?`,
    willBeAble: (application: string, network: string): Rich => [
      'On the ',
      { strong: network },
      `, ${application} will be able to`,
    ],
    always: 'see your name, your picture and your account’s address',
    isNew: 'new',
    spends: (application: string) => `${application} will be able to spend what is in your account`,
    spendsHint: (application: string) =>
      `It can send transactions on your behalf without asking you each time, and there is no limit to the amount. Allow this only if you trust ${application}.`,
    spendsTest:
      'It can send transactions on your behalf without asking you each time. On a test network nothing is worth real money.',
    allow: 'Allow',
    deny: 'Do not allow',
    never: (application: string) => `${application} never gets your keys or your password.`,
    until: 'Access lasts until you revoke it; you are asked again only if it requests more.',
    eachTime:
      'It runs on this device and cannot prove its identity, so you are asked at every sign-in. Allow it only if you have just started it yourself.',
    where: 'Revoke access at any time in your account',
  },
  /** permissions in everyday words, after “will be able to” */
  meanings: {
    email: 'see your e-mail address',
    'wallet:read': 'see your balances and your transfers',
    'contracts:read': 'read data from smart contracts',
    'contracts:write': 'send transactions and spend from your account',
    'users:read': 'see your name, your balances and your transfers at any time, even when you are not using it',
    'users:directory':
      'look up other people who use it, and let them look up your name, your picture and your account’s address',
  } as Record<string, string>,
  leaving: {
    title: 'Sign out',
    question: 'Sign out?',
    here: 'You stay signed in on this device until you sign out.',
    stillHere: (application: string) =>
      `${application} has signed you out. You are still signed in here, so the next sign-in will not ask who you are.`,
    yes: 'Sign out here too',
    no: 'Stay signed in',
    doneTitle: 'Signed out',
    done: 'You are signed out',
    doneOf: (application: string) => `You are signed out of ${application}`,
    close: 'You can close this page.',
  },
  refused: {
    code: 'Code:',
    badSignIn: {
      pageTitle: 'Sign-in',
      title: 'This sign-in cannot be started',
      hint: 'The application sent an invalid request. Go back to it, and report this to its developer:',
    },
    badSignOut: {
      pageTitle: 'Sign out',
      title: 'This sign-out is not possible',
      hint: 'The application sent an invalid request, and you are still signed in here. Report this to its developer:',
    },
    malformed: 'The request is malformed.',
    over: 'It has expired, was already completed, or was started in another browser.',
    signedOut: 'You are no longer signed in.',
    notOurForm: 'The form was not sent from our page.',
    noProvider: 'This installation has no identity provider with that name.',
    noState: (provider: string) => `The response from ${provider} has no state parameter.`,
    cancelled: (provider: string) => `You cancelled the sign-in with ${provider}, or it refused you.`,
    notThisWay: (provider: string) => `The response from ${provider} came in an unexpected way.`,
    notAgain: (provider: string) =>
      `${provider} did not ask you to sign in again, which is required here. Sign out there first, then try again.`,
    failedCheck: (provider: string) => `The response from ${provider} could not be verified.`,
    away: (provider: string) => `${provider} is not responding at the moment. Try again, or sign in another way.`,
    otherBrowser: 'It expired, or you are no longer signed in here as you were when it began.',
    notSure: 'The box was not ticked, so nothing was deleted.',
  },
  /** refusals that people can come across: what happened, and what helps */
  codes: {
    sign_in_expired: ['This sign-in is no longer valid', 'Go back to the application and sign in again.'],
    sign_in_refused: ['The sign-in was refused', 'Go back to the application and sign in again.'],
    unknown_provider: ['Unknown identity provider', 'This installation has no identity provider with that name.'],
    provider_unavailable: ['The identity provider is not responding', 'Try to sign in again in a moment.'],
    application_suspended: ['The application is suspended', 'The operator of this service has suspended it.'],
    account_frozen: [
      'The account is frozen',
      'The operator of this service has frozen it: you can view it, but not send anything from it.',
    ],
    rate_limited: ['Too many requests', 'Wait a moment, then try again.'],
    not_found: ['Page not found', 'There is nothing at this address.'],
    database_unavailable: ['The service is not available at the moment', 'Nothing is lost. Try again in a moment.'],
    shutting_down: ['The service is restarting', 'Try again in a moment.'],
    invalid_address: [
      'This is not an address',
      'An address is 0x and 40 more characters: digits and letters from a to f. Copy it again.',
    ],
    invalid_user_id: ['This is not a user id', 'A user id starts with the name of the person’s identity provider.'],
    invalid_amount: [
      'This amount cannot be sent',
      'It must be greater than zero. A single collectible needs no amount; others are counted in whole units.',
    ],
    amount_precision: [
      'The amount has too many decimal places',
      'What you send cannot be divided that finely. Nothing is rounded.',
    ],
    invalid_recipient: ['Nobody can receive it there', 'Whatever is sent to this address would be lost for good.'],
    unknown_recipient: [
      'Recipient not found',
      'Nobody here has this name, or more than one person does. Check it, or use an address.',
    ],
    insufficient_funds: [
      'Insufficient funds',
      'Your account holds less than the amount plus the highest possible fee.',
    ],
    insufficient_tokens: ['Not enough of this token', 'Your account holds less than you want to send.'],
    not_token_owner: ['This is not yours', 'The collectible belongs to another account, or does not exist.'],
    transfer_refused: ['The token rejected it', 'Its contract does not allow this transfer. Nothing was sent.'],
    execution_reverted: ['The contract rejected it', 'Nothing was sent.'],
    policy_denied: ['The rules of this service do not allow it', 'Nothing was sent.'],
    fee_cap_reached: [
      'The network is too expensive at the moment',
      'It requires a higher fee than the operator of this service allows. Nothing was sent.',
    ],
    too_many_pending: ['Too many transactions are pending', 'Wait until some of them are confirmed.'],
    account_stopped: ['The account is stopped', 'The operator of this service has to review it first.'],
    chain_unavailable: ['The network is not responding', 'Nothing new was sent. Try again in a moment.'],
    chain_timeout: ['The network is not responding', 'Try again in a moment.'],
    signer_unavailable: [
      'The service is not available at the moment',
      'Submit the same form again: it takes effect once, however often you do.',
    ],
    overloaded: ['The service is busy', 'Try again in a moment.'],
    idempotency_key_reused: ['This form was already used for something else', 'Start again.'],
    internal_error: ['Something went wrong on our side', 'Try again. If it happens again, contact support.'],
    other: ['This did not work', 'Go back and try again.'],
  } as Record<PageCode | 'other', [title: string, help: string]>,
  account: {
    title: 'Your account',
    signOut: 'Sign out',
    address: 'Your address',
    copy: 'Copy the address',
    copied: 'Copied',
    addressHint: 'The same on every network and in every application. Select it to copy it, or scan the code.',
    qrLabel: 'QR code of your address',
    unreadable: 'This network is not responding at the moment. Nothing is lost: check again later.',
    tokensHeading: 'What you have',
    nothingHeld: 'Nothing yet.',
    collectibles: 'Collectibles',
    showAll: 'Show all activity',
    browserOn: (browser: string, system: string) => `${browser} on ${system}`,
    unknownBrowser: 'unknown browser',
    transfers: 'Latest transfers',
    noTransfers: 'No token transfers yet.',
    received: (from: string) => `from ${from}`,
    created: 'newly created',
    destroyed: 'destroyed',
    sent: (to: string) => `to ${to}`,
    toMyself: 'to yourself',
    sentByApplications: 'Done on your behalf',
    states: {
      SUBMITTED: 'pending',
      MINED: 'confirmed',
      FINALIZED: 'final',
      REVERTED: 'rejected by the contract',
      FAILED: 'failed',
      REPLACED: 'replaced by another',
      CANCELLED: 'cancelled',
    },
    applications: 'Applications with access',
    noApplications: 'None. An application appears here once you have signed in to it.',
    signIns: (count: number) =>
      count === 1 ? 'signed in once' : count === 0 ? 'not signed in' : `signed in ${count} times`,
    revoke: 'Revoke access',
    identities: 'Ways to sign in',
    identitiesHint: 'Each of them opens this one account. The first one cannot be removed: it identifies the account.',
    firstIdentity: 'first',
    remove: 'Remove',
    add: (provider: string) => `Add a sign-in with ${provider}`,
    sessions: 'Where you are signed in',
    sessionsHint:
      'Signing out a browser ends its session here. Applications stay signed in until you sign out everywhere or revoke their access.',
    thisBrowser: 'this browser',
    since: (time: string) => `since ${time}`,
    signOutOthers: 'Sign out all other browsers',
    signOutEverywhere: 'Sign out everywhere, applications too',
    signedOutEverywhere:
      'In every browser and in every application, within a minute. What you allowed applications to do stays allowed: they need not ask you again.',
    unlinkedHere:
      'You removed the way to sign in that you had used here. Every other session that used it has ended too. You can close this page.',
    data: 'Download my data',
    erase: 'Delete my data',
    signedOut: 'You are signed out',
    signedOutHint: 'You can close this page.',
    erased: 'Your data is deleted',
    erasedHint: 'You are signed out everywhere. You can close this page.',
    notSignedIn: 'You are not signed in',
    signIn: 'Sign in',
    back: 'Back to your account',
  },
  send: {
    title: 'Send',
    asset: 'Asset',
    to: 'To',
    toHint: 'A name, a user id or an address that begins with 0x.',
    provider: 'Identity provider of the name',
    amount: 'Amount',
    amountHint: 'For example 1.5. Leave it empty for a single collectible.',
    next: 'Continue',
    nothing: 'There is nothing to send yet.',
    confirmTitle: 'Send this?',
    myself: 'yourself',
    sentence: (amount: string, recipient: string, network: string): Rich => [
      'You send ',
      { strong: amount },
      ' to ',
      { strong: recipient },
      ' on the ',
      { strong: network },
      '.',
    ],
    address: 'Address',
    stranger: (id: string) =>
      `${id} has not signed in here yet. An account will be created for them, and nobody else can use it.`,
    fee: 'Maximum fee',
    final: 'A transfer cannot be reversed.',
    confirm: 'Send now',
    change: 'Edit',
    sentTitle: 'Sent',
    state: 'Status',
    time: 'Time',
    lookAgain: 'Refresh',
    explorer: 'View in the block explorer',
    another: 'Send something else',
    ambiguous: 'The amount cannot be read or is ambiguous. Write it without thousands separators, for example 1.5.',
  },
  activity: {
    title: 'Activity',
    network: 'Network',
    show: 'Show',
    tokens: 'Tokens and collectibles',
    coins: 'Native currency',
    done: 'Done on your behalf',
    direction: 'Direction',
    all: 'all',
    in: 'received',
    out: 'sent',
    application: 'Application',
    apply: 'Show these',
    older: 'Older',
    newest: 'Back to the newest',
    nothing: 'Nothing here yet.',
    coinsHint:
      'Listed is what people of this service sent each other. What comes from elsewhere shows in your balance only.',
    yourself: 'you, on these pages',
    unknown: 'unknown application',
    called: (name: string, contract: string) => `${name} of the contract ${contract}`,
    transferred: (recipient: string) => `transfer to ${recipient}`,
    value: 'Value sent',
    fee: 'Fee paid',
  },
  erase: {
    title: 'Delete your data?',
    goesTitle: 'What is deleted',
    goes: [
      'your name, your picture and your e-mail address',
      'which applications you used and what you allowed them to do; you are signed out of them',
      'every way to sign in except the first one',
      'where you are signed in; you are signed out everywhere',
    ],
    staysTitle: 'What stays',
    stays: [
      'Everything that is on a blockchain: your address, its balances and its transfers are public, and nobody can delete them.',
      'The id of your account and its address, with the record of its transactions, because they belong to what is on the blockchain.',
      'The key of your account, in the signer: without it, whatever the address holds would be lost.',
    ],
    back: (identity: string) =>
      `Anyone who signs in as ${identity} again gets the same account. If you can no longer sign in that way, send what the account holds somewhere else first.`,
    sure: 'I understand what is deleted and what stays',
    delete: 'Delete my data',
    keep: 'Keep everything',
  },
  /** what has just been done, by the code in the address */
  done: {
    again: 'You signed in again. Now repeat what you wanted to do.',
    revoked: 'Access revoked. The application has to ask you again, and its access ends within a minute.',
    linked: 'Added. You can sign in to this account that way now.',
    already_linked: 'That sign-in already belongs to this account.',
    has_own_account:
      'That sign-in has an account of its own here, which may hold something, so it cannot be added to this one. Sign in with it to use that account.',
    unlinked:
      'Removed. From now on that sign-in opens another account, and every browser and application that was signed in with it is signed out within a minute.',
    kept: 'It could not be removed: it is the first one, or was already removed.',
    signed_out: 'That browser is signed out.',
  } as Record<string, string>,
}

/** A language: the same texts as the English. */
export type Texts = typeof en

/** Refusals that have a text of their own on a page; every other has that of `other`, with its code. */
export type PageCode =
  | 'sign_in_expired'
  | 'sign_in_refused'
  | 'unknown_provider'
  | 'provider_unavailable'
  | 'application_suspended'
  | 'account_frozen'
  | 'rate_limited'
  | 'not_found'
  | 'database_unavailable'
  | 'shutting_down'
  | 'invalid_address'
  | 'invalid_user_id'
  | 'invalid_amount'
  | 'amount_precision'
  | 'invalid_recipient'
  | 'unknown_recipient'
  | 'insufficient_funds'
  | 'insufficient_tokens'
  | 'not_token_owner'
  | 'transfer_refused'
  | 'execution_reverted'
  | 'policy_denied'
  | 'fee_cap_reached'
  | 'too_many_pending'
  | 'account_stopped'
  | 'chain_unavailable'
  | 'chain_timeout'
  | 'signer_unavailable'
  | 'overloaded'
  | 'idempotency_key_reused'
  | 'internal_error'
