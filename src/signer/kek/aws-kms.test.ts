import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { awsKmsStandIn } from '../../../test/key-services/aws-kms.ts'
import { openNamed, secretFiles } from '../../../test/key-services/opened.ts'
import { signCall } from './aws-signature.ts'
import { readAwsKmsUri } from './remote-uri.ts'

const [DEK, AAD] = [randomBytes(32), Buffer.from('chatelaine data key 1')]

test('signatures are those of the published test suite of Signature Version 4', () => {
  const keys = { accessKeyId: 'AKIDEXAMPLE', secretAccessKey: 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY' }
  const sts =
    'AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2ICCR/oLxBA=='
  const host = 'example.amazonaws.com'
  for (const [name, method, headers, body, sessionToken, signed, signature] of [
    [
      'get-vanilla',
      'GET',
      {},
      '',
      null,
      'host;x-amz-date',
      '5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31',
    ],
    [
      'get-header-value-trim',
      'GET',
      { 'my-header1': ' value1', 'my-header2': ' "a   b   c"' },
      '',
      null,
      'host;my-header1;my-header2;x-amz-date',
      'acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736',
    ],
    [
      'post-vanilla',
      'POST',
      {},
      '',
      null,
      'host;x-amz-date',
      '5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b',
    ],
    [
      'post-header-key-sort',
      'POST',
      { 'my-header1': 'value1' },
      '',
      null,
      'host;my-header1;x-amz-date',
      'c5410059b04c1ee005303aed430f6e6645f61f4dc9e1461ec8f8916fdf18852c',
    ],
    [
      'post-x-www-form-urlencoded',
      'POST',
      { 'content-type': 'application/x-www-form-urlencoded' },
      'Param1=value1',
      null,
      'content-type;host;x-amz-date',
      'ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a',
    ],
    [
      'post-sts-header-before',
      'POST',
      {},
      '',
      sts,
      'host;x-amz-date;x-amz-security-token',
      '85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead',
    ],
  ] as const) {
    // prettier-ignore
    const { authorization } = signCall(
      { method, path: '/', headers: { host, ...headers }, body: Buffer.from(body) },
      { ...keys, sessionToken },
      { region: 'us-east-1', service: 'service', at: new Date('2015-08-30T12:36:00.123Z') },
    )
    assert.equal(authorization, `AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request, SignedHeaders=${signed}, Signature=${signature}`, name) // prettier-ignore
  }
})

test('the region and the host are of the ARN, or of the endpoint that is named', () => {
  const of = (text: string) => {
    const { region, endpoint } = readAwsKmsUri(text)
    return [region, endpoint.href]
  }
  const arn = (partition: string, region: string) => `aws-kms:arn:${partition}:kms:${region}:111122223333:key/1-2`
  assert.deepEqual(of(arn('aws', 'eu-central-1')), ['eu-central-1', 'https://kms.eu-central-1.amazonaws.com/'])
  assert.deepEqual(of(arn('aws-us-gov', 'us-gov-west-1')), [
    'us-gov-west-1',
    'https://kms.us-gov-west-1.amazonaws.com/',
  ])
  assert.deepEqual(of(arn('aws-cn', 'cn-north-1')), ['cn-north-1', 'https://kms.cn-north-1.amazonaws.com.cn/'])
  assert.deepEqual(of(`${arn('aws', 'us-east-1')}?endpoint=https://kms-fips.us-east-1.amazonaws.com`), ['us-east-1', 'https://kms-fips.us-east-1.amazonaws.com/']) // prettier-ignore
})

test('keys of AWS that were renewed are used at the next call, with a session or without; another profile is not', async (t) => {
  const aws = await awsKmsStandIn(t, { sessionToken: null })
  const { put } = secretFiles(t)
  const credentialsFile = put('credentials', aws.credentials())
  const kek = await openNamed(aws.uri, { credentialsFile })
  const wrapped = await kek.wrap(DEK, AAD)
  aws.secrets.delete('AKIASTANDIN')
  aws.secrets.set('AKIARENEWED', 'another+secret')
  await assert.rejects(kek.unwrap(wrapped, AAD), /wrong or have expired.*\(UnrecognizedClientException\)/)
  writeFileSync(credentialsFile, aws.credentials('AKIARENEWED', 'of+another'))
  await assert.rejects(kek.unwrap(wrapped, AAD), /wrong or have expired.*\(InvalidSignatureException\)/)
  writeFileSync(credentialsFile, aws.credentials('AKIARENEWED'))
  assert.deepEqual(await kek.unwrap(wrapped, AAD), DEK)
  const absent = await openNamed(`${aws.uri}&profile=absent`, { credentialsFile })
  await assert.rejects(absent.unwrap(wrapped, AAD), /no aws_access_key_id and aws_secret_access_key under \[absent\]/)
  assert.deepEqual(aws.faults, [])
})

test('an answer for another key than was asked is not used', async (t) => {
  const aws = await awsKmsStandIn(t)
  const kek = await openNamed(aws.uri, { credentialsFile: secretFiles(t).put('credentials', aws.credentials()) })
  const wrapped = await kek.wrap(DEK, AAD)
  aws.misbehave('answers for another key')
  await assert.rejects(kek.wrap(DEK, AAD), /for another key/)
  await assert.rejects(kek.unwrap(wrapped, AAD), /for another key/)
})

test('an answer that does not say by which algorithm is not used', async (t) => {
  const aws = await awsKmsStandIn(t)
  const kek = await openNamed(aws.uri, { credentialsFile: secretFiles(t).put('credentials', aws.credentials()) })
  const wrapped = await kek.wrap(DEK, AAD)
  aws.misbehave('answers without', Number.POSITIVE_INFINITY, 'EncryptionAlgorithm')
  await assert.rejects(kek.wrap(DEK, AAD), /for another key or algorithm/)
  await assert.rejects(kek.unwrap(wrapped, AAD), /for another key or algorithm/)
})
